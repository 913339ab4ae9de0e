import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.PriorityQueue;

import com.sun.management.OperatingSystemMXBean;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.accumulators.ListAccumulator;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFilterFunction;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.FileSourceSplit;
import org.apache.flink.connector.file.src.assigners.FileSplitAssigner;
import org.apache.flink.core.fs.Path;
import org.apache.flink.formats.parquet.ParquetColumnarRowInputFormat;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.binary.BinaryStringData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.DoubleType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.util.Collector;

/**
 * SEQ(A a, B b, C c) WHERE [key] AND b.v > a.v WITHIN window, with the CEP library's Java API, from parquet files.
 *
 * <p>All combinations (followedByAny), as the query means it; other contiguities and skip strategies if asked, and
 * without the condition on v. The library lets events of one time follow each other in
 * order of arrival, so the conditions ask for strictly later times; its window is exclusive, so it gets one tick more.
 * State is on the heap, there are no checkpoints, objects are reused. One cluster serves all repetitions, so that its
 * start is not counted; every repetition prints one line of JSON.
 */
public final class SequenceJob {
    /** One row of the stream. Public fields and an empty constructor make it a POJO for the serializer. */
    public static final class Event implements Serializable {
        public byte type;
        public long time;
        public long key;
        public double v;

        public Event() {}

        Event(byte type, long time, long key, double v) {
            this.type = type;
            this.time = time;
            this.key = key;
            this.v = v;
        }
    }

    /** One answer. */
    public static final class Match implements Serializable {
        public Event a;
        public Event b;
        public Event c;

        public Match() {}

        Match(Event a, Event b, Event c) {
            this.a = a;
            this.b = b;
            this.c = c;
        }
    }

    /** Hands out files in the order of their names: what is not handed out yet is later than all that is. */
    private static final class InOrder implements FileSplitAssigner {
        private final PriorityQueue<FileSourceSplit> waiting =
                new PriorityQueue<>(
                        Comparator.<FileSourceSplit, String>comparing(split -> split.path().toString())
                                .thenComparing(FileSourceSplit::offset));

        InOrder(Collection<FileSourceSplit> splits) {
            waiting.addAll(splits);
        }

        @Override
        public Optional<FileSourceSplit> getNext(String host) {
            return Optional.ofNullable(waiting.poll());
        }

        @Override
        public void addSplits(Collection<FileSourceSplit> splits) {
            waiting.addAll(splits);
        }

        @Override
        public Collection<FileSourceSplit> remainingSplits() {
            return new ArrayList<>(waiting);
        }
    }

    private static final class IsType extends SimpleCondition<Event> {
        private final byte type;

        IsType(char type) {
            this.type = (byte) type;
        }

        @Override
        public boolean filter(Event event) {
            return event.type == type;
        }
    }

    /** A later B with a larger value than the A. */
    private static final class LargerB extends IterativeCondition<Event> {
        @Override
        public boolean filter(Event event, Context<Event> context) throws Exception {
            if (event.type != 'B') {
                return false;
            }
            Event a = context.getEventsForPattern("a").iterator().next();
            return event.v > a.v && event.time > a.time;
        }
    }

    /** Builds the match. That C is later than B is asked here: cheaper than a look into the buffer for every C. */
    private static final class ToMatch extends PatternProcessFunction<Event, Match> {
        @Override
        public void processMatch(Map<String, List<Event>> found, Context context, Collector<Match> out) {
            Event b = found.get("b").get(0);
            Event c = found.get("c").get(0);
            if (c.time > b.time) {
                out.collect(new Match(found.get("a").get(0), b, c));
            }
        }
    }

    /** Counts what reaches the end of the job, and sums it up; lists it too when asked (small inputs only). */
    private static final class Summed extends RichFilterFunction<Match> {
        private final boolean listed;
        private final LongCounter matches = new LongCounter();
        private final LongCounter checksum = new LongCounter();
        private final ListAccumulator<String> list = new ListAccumulator<>();

        Summed(boolean listed) {
            this.listed = listed;
        }

        @Override
        public void open(OpenContext context) {
            getRuntimeContext().addAccumulator("matches", matches);
            getRuntimeContext().addAccumulator("checksum", checksum);
            getRuntimeContext().addAccumulator("list", list);
        }

        @Override
        public boolean filter(Match match) {
            matches.add(1);
            checksum.add((3 * units(match.a.v) + 5 * units(match.b.v) + 7 * units(match.c.v)) % 1_000_003L);
            if (listed) {
                list.add(units(match.a.v) + " " + units(match.b.v) + " " + units(match.c.v));
            }
            return true;
        }

        private static long units(double v) {
            return (long) (v * 0x1p53);
        }
    }

    /** Counts rows for the job that only reads. */
    private static final class Counted extends RichFilterFunction<Event> {
        private final LongCounter rows = new LongCounter();

        @Override
        public void open(OpenContext context) {
            getRuntimeContext().addAccumulator("matches", rows);
        }

        @Override
        public boolean filter(Event event) {
            rows.add(1);
            return false;
        }
    }

    private final Map<String, String> options;

    private SequenceJob(Map<String, String> options) {
        this.options = options;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i < arguments.length; i += 2) {
            options.put(arguments[i].substring(2), arguments[i + 1]);
        }
        new SequenceJob(options).repeat();
    }

    private int number(String name) {
        return Integer.parseInt(options.get(name));
    }

    private void repeat() throws Exception {
        Configuration cluster = new Configuration();
        cluster.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(512));
        MiniClusterConfiguration configuration =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(cluster)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(number("slots"))
                        .setCommonBindAddress("127.0.0.1")
                        .withRandomPorts()
                        .build();
        try (MiniCluster mini = new MiniCluster(configuration)) {
            mini.start();
            for (int run = 0; run < number("runs"); run++) {
                System.out.println(timed(mini));
            }
        }
    }

    private String timed(MiniCluster mini) throws Exception {
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpu = system.getProcessCpuTime();
        long wall = System.nanoTime();
        JobExecutionResult result = mini.executeJobBlocking(job().getStreamGraph().getJobGraph());
        double wallSeconds = (System.nanoTime() - wall) / 1e9;
        double cpuSeconds = (system.getProcessCpuTime() - cpu) / 1e9;
        if (options.containsKey("list")) {
            List<String> list = result.getAccumulatorResult("list");
            Files.write(Paths.get(options.get("list")), list, StandardCharsets.UTF_8);
        }
        Long checksum = result.getAccumulatorResult("checksum");
        return String.format(
                Locale.ROOT,
                "{\"matches\": %d, \"checksum\": %d, \"wall_s\": %.6f, \"cpu_s\": %.6f}",
                result.<Long>getAccumulatorResult("matches"),
                checksum == null ? 0L : checksum,
                wallSeconds,
                cpuSeconds);
    }

    private StreamExecutionEnvironment job() {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(number("slots"));
        environment.getConfig().enableObjectReuse();
        environment.setRuntimeMode(RuntimeExecutionMode.valueOf(options.get("mode").toUpperCase(Locale.ROOT)));
        DataStream<Event> events = events(environment);
        if (options.get("only").equals("read")) {
            events.filter(new Counted()).sinkTo(new DiscardingSink<>());
            return environment;
        }
        CEP.pattern(events.keyBy(event -> event.key), pattern())
                .inEventTime()
                .process(new ToMatch())
                .filter(new Summed(options.containsKey("list")))
                .sinkTo(new DiscardingSink<>());
        return environment;
    }

    /** The rows that the pattern can use, with their times; files are read in order of time. */
    private DataStream<Event> events(StreamExecutionEnvironment environment) {
        LogicalType text = new VarCharType(VarCharType.MAX_LENGTH);
        RowType row =
                RowType.of(
                        new LogicalType[] {text, new BigIntType(), new BigIntType(), new DoubleType()},
                        new String[] {"type", "time", "key", "v"});
        ParquetColumnarRowInputFormat<FileSourceSplit> format =
                new ParquetColumnarRowInputFormat<>(
                        new org.apache.hadoop.conf.Configuration(), row, InternalTypeInfo.of(row), 2048, true, true);
        FileSource<RowData> source =
                FileSource.forBulkFileFormat(format, new Path(options.get("input")))
                        .setSplitAssigner(InOrder::new)
                        .build();
        WatermarkStrategy<RowData> inOrder =
                WatermarkStrategy.<RowData>forMonotonousTimestamps()
                        .withTimestampAssigner((fields, before) -> fields.getLong(1));
        SingleOutputStreamOperator<RowData> rows =
                environment.fromSource(source, inOrder, "parquet").setParallelism(number("readers"));
        boolean all = contiguity().equals("next"); // then every event counts
        return rows.filter(fields -> all || wanted(typeOf(fields)))
                .setParallelism(number("readers"))
                .map(fields -> new Event(typeOf(fields), fields.getLong(1), fields.getLong(2), fields.getDouble(3)))
                .returns(Event.class)
                .setParallelism(number("readers"));
    }

    private static byte typeOf(RowData row) {
        return ((BinaryStringData) row.getString(0)).byteAt(0);
    }

    private static boolean wanted(byte type) {
        return type == 'A' || type == 'B' || type == 'C';
    }

    private String contiguity() {
        return options.getOrDefault("contiguity", "followedByAny");
    }

    private Pattern<Event, ?> pattern() {
        boolean compares = options.getOrDefault("compares", "yes").equals("yes");
        Pattern<Event, Event> a = Pattern.<Event>begin("a", skipping()).where(new IsType('A'));
        Pattern<Event, Event> b = then(a, "b").where(compares ? new LargerB() : new IsType('B'));
        return then(b, "c").where(new IsType('C')).within(Duration.ofMillis(number("window") + 1L));
    }

    private Pattern<Event, Event> then(Pattern<Event, Event> before, String name) {
        switch (contiguity()) {
            case "next":
                return before.next(name);
            case "followedBy":
                return before.followedBy(name);
            default:
                return before.followedByAny(name);
        }
    }

    private AfterMatchSkipStrategy skipping() {
        switch (options.getOrDefault("skip", "none")) {
            case "past last":
                return AfterMatchSkipStrategy.skipPastLastEvent();
            case "to next":
                return AfterMatchSkipStrategy.skipToNext();
            default:
                return AfterMatchSkipStrategy.noSkip();
        }
    }
}
