import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/**
 * Runs the EPL of a file over the events of another, so many times, and tells of each run: rows, checksum, CPU seconds.
 * A line of events is: type, time in seconds, values. Statements named `out` give the rows, of one or two numbers, or of
 * a number and the collection of events that it is paired with.
 */
public class EsperStaged {
    private static long rows;
    private static long checksum;

    public static void main(String[] given) throws Exception {
        String epl = Files.readString(Path.of(given[0]));
        List<String> types = new ArrayList<>();
        List<long[]> times = new ArrayList<>();
        List<Object[]> events = new ArrayList<>();
        try (var lines = Files.lines(Path.of(given[1]))) {
            lines.forEach(line -> {
                String[] parts = line.split(",");
                types.add(parts[0].intern());
                times.add(new long[] {Long.parseLong(parts[1])});
                Object[] values = new Object[parts.length - 2];
                for (int i = 0; i < values.length; i++) {
                    values[i] = parts[i + 2].contains(".") ? (Object) Double.valueOf(parts[i + 2]) : Long.valueOf(parts[i + 2]);
                }
                events.add(values);
            });
        }
        var machine = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (int run = 0; run < Integer.parseInt(given[2]); run++) {
            rows = checksum = 0;
            Configuration configuration = new Configuration();
            configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
            EPRuntime runtime = EPRuntimeProvider.getRuntime("run" + run, configuration);
            EPCompiled compiled = EPCompilerProvider.getCompiler().compile(epl, new CompilerArguments(configuration));
            runtime.getEventService().advanceTime(0);
            EPDeployment deployed = runtime.getDeploymentService().deploy(compiled);
            for (EPStatement statement : deployed.getStatements()) {
                if (statement.getName().startsWith("out")) {
                    statement.addListener((fresh, old, source, host) -> take(fresh));
                }
            }
            EPEventService service = runtime.getEventService();
            System.gc();
            long before = machine.getProcessCpuTime();
            long clock = 0;
            for (int i = 0; i < events.size(); i++) {
                long now = times.get(i)[0];
                if (now != clock) {
                    service.advanceTime(now * 1000);
                    clock = now;
                }
                service.sendEventObjectArray(events.get(i), types.get(i));
            }
            double seconds = (machine.getProcessCpuTime() - before) / 1e9;
            System.gc();
            long used = Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
            System.out.println(rows + " " + checksum + " " + seconds + " " + used);
            runtime.destroy();
        }
    }

    private static void take(EventBean[] fresh) {
        if (fresh == null) {
            return;
        }
        for (EventBean each : fresh) {
            Object first = each.get("a");
            Object second = each.get("b");
            if (second instanceof Collection<?> several) {
                for (Object one : several) {
                    add(first, one);
                }
            } else if (second instanceof Object[] several) {
                for (Object one : several) {
                    add(first, one);
                }
            } else {
                add(first, second);
            }
        }
    }

    private static void add(Object first, Object second) {
        rows++;
        checksum += number(first) * 31 + number(second);
    }

    private static long number(Object value) {
        return Math.round(((Number) value).doubleValue() * 10);
    }
}
