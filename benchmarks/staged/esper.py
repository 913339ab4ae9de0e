"""The same questions in EPL, the language of Esper, as somebody who knows it would write them; on the JVM.

Each EPL gives rows of two numbers. Where Esper has no word for stages, the EPL relies on what the events here have:
each its own time, numbers that grow, a package or bag before each container.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.spark.data import OUT
from benchmarks.spark.flink import UnavailableError, asked, tool

VERSION = "9.0.0"
HOME = OUT / f"esper-{VERSION}"
SOURCE = Path(__file__).parent / "java" / "EsperStaged.java"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>esper</artifactId><version>1</version><dependencies>
<dependency><groupId>com.espertech</groupId><artifactId>esper-runtime</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>com.espertech</groupId><artifactId>esper-compiler</artifactId><version>{VERSION}</version></dependency>
</dependencies></project>"""

PUBLIC = "@public @buseventtype create objectarray schema"
EPL = {
    "PackageContainer": f"""
{PUBLIC} Package(pkgId long);
{PUBLIC} Container(contId long);
create window Packages#keepall as Package;
insert into Packages select * from Package;
create objectarray schema Taken(a long, b java.util.Collection, upto long);
@name('out') insert into Taken select c.contId as a, (select window(p.pkgId).take(3) from Packages as p) as b,
  (select window(p.pkgId).take(3).max() from Packages as p) as upto from Container as c;
on Taken as t delete from Packages as p where p.pkgId <= t.upto;
""",
    "BagContainerID": f"""
{PUBLIC} BagEvent(id long, carouselId long);
{PUBLIC} ContainerEvent(id long, trackId long);
create objectarray schema Taken(a long, b java.util.Collection, upto long, gate long);
create context Gate partition by carouselId from BagEvent, trackId from ContainerEvent, gate from Taken;
context Gate create window Bags#keepall as BagEvent;
context Gate insert into Bags select * from BagEvent;
@name('out') context Gate insert into Taken select c.id as a, (select window(b.id).take(4) from Bags as b) as b,
  (select window(b.id).take(4).max() from Bags as b) as upto, c.trackId as gate from ContainerEvent as c;
context Gate on Taken as t delete from Bags as b where b.id <= t.upto;
""",
    "Top10SpeedLimitViolations": f"""
{PUBLIC} At8am();
{PUBLIC} At6pm();
{PUBLIC} CarEvent(speed double, linkId long);
create context DutyRegion
  context Open start At8am end At6pm,
  context Region group linkId between 1 and 50 as one, group linkId between 51 and 100 as two,
    group linkId between 101 and 150 as three, group linkId > 150 as other from CarEvent;
@name('out') context DutyRegion select c.speed as a, 0 as b from CarEvent(speed > 60) as c
where (select count(*) from CarEvent(speed > 60)#sort(10, speed desc) as o where o.speed > c.speed) < 10;
""",
    "CarAvgSpeedPerLink": f"""
{PUBLIC} CarEvent(regNumber long, linkId long, speed long, stage long);
create objectarray schema Valid(regNumber long, linkId long, speed long);
create objectarray schema Wrong(regNumber long);
create context Car partition by regNumber from Valid, regNumber from Wrong;
context Car create window Visit#keepall as Valid;
@name('out1') context Car on Valid as v select max(v.regNumber) as a, avg(distinct w.speed) as b from Visit as w
where w.linkId != v.linkId having count(*) > 0;
context Car on Valid as v delete from Visit as w where w.linkId != v.linkId;
context Car insert into Visit select * from Valid;
@name('out2') context Car on Wrong as v select max(v.regNumber) as a, avg(distinct w.speed) as b from Visit as w
having count(*) > 0;
context Car on Wrong delete from Visit;
insert into Valid select regNumber, min(linkId) as linkId, min(speed) as speed
from CarEvent#expr_batch(newest_event.stage > oldest_event.stage, false) group by regNumber having count(*) = 1;
insert into Wrong select regNumber
from CarEvent#expr_batch(newest_event.stage > oldest_event.stage, false) group by regNumber having count(*) > 1;
""",
    "PatientBleeding": f"""
{PUBLIC} Fall(startTs long, patientId long, endTs long);
{PUBLIC} HeartRateIncrease(startTs long, patientId long, endTs long);
{PUBLIC} BloodPressureDecrease(startTs long, patientId long, endTs long);
create context Patient partition by patientId from Fall, patientId from HeartRateIncrease,
  patientId from BloodPressureDecrease;
context Patient create window Falls#length(1) as Fall;
context Patient insert into Falls select * from Fall;
context Patient create window Rises#time(5 min) as HeartRateIncrease;
context Patient insert into Rises select * from HeartRateIncrease;
context Patient create window Drops#time(5 min) as BloodPressureDecrease;
context Patient insert into Drops select * from BloodPressureDecrease;
@name('out1') context Patient on HeartRateIncrease as h select and delete f.patientId as a, 0 as b from Falls as f
where h.endTs < f.endTs + 300 and h.startTs > f.endTs and exists (
  select * from Drops as b
  where b.startTs > f.endTs and h.endTs >= b.startTs and b.endTs >= h.startTs);
@name('out2') context Patient on BloodPressureDecrease as b select and delete f.patientId as a, 0 as b from Falls as f
where b.endTs < f.endTs + 300 and b.startTs > f.endTs and exists (
  select * from Rises as h
  where h.startTs > f.endTs and h.endTs >= b.startTs and b.endTs >= h.startTs);
""",
}


def events(name: str, table: pa.Table) -> Iterator[str]:
    """The events as lines: type, time, values that are there, in the order of the columns."""
    columns = table.column_names
    time = "end" if "end" in columns else "time"
    for row in table.to_pylist():
        values = [row[each] for each in columns if each not in ("type", time) and row[each] is not None]
        if name == "PatientBleeding":
            values.append(row["end"])
        elif name == "CarAvgSpeedPerLink":
            values.append(row["time"])
        yield ",".join(map(str, (row["type"], row[time], *values)))
    if name == "CarAvgSpeedPerLink":  # what ends the last time
        yield f"CarEvent,{row['time'] + 1},-1,0,0,{row['time'] + 1}"


def classpath() -> str:
    """Esper's jars and the compiled program; what is missing is fetched and made."""
    if not (HOME / f"esper-compiler-{VERSION}.jar").exists():
        HOME.mkdir(parents=True, exist_ok=True)
        (HOME / "pom.xml").write_text(POM)
        fetch = [tool("mvn"), "-q", "-B", "-f", str(HOME / "pom.xml"), "dependency:copy-dependencies"]
        asked([*fetch, f"-DoutputDirectory={HOME}"], "Esper could not be fetched with Maven")
    jars = os.pathsep.join(map(str, sorted(HOME.glob("*.jar"))))
    classes = HOME / "classes"
    done = subprocess.run(
        [tool("javac"), "-proc:none", "-d", str(classes), "-cp", jars, str(SOURCE)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise UnavailableError(f"the program for Esper does not compile: {done.stderr.strip()[-300:]}")
    return os.pathsep.join([str(classes), jars])


def run(name: str, table: pa.Table, runs: int) -> list[dict[str, Any]]:
    """Run the EPL so many times in one JVM: rows, checksum, seconds of CPU and bytes of each run."""
    with tempfile.TemporaryDirectory() as folder:
        epl, data = Path(folder) / "epl", Path(folder) / "events"
        epl.write_text(EPL[name])
        data.write_text("\n".join(events(name, table)))
        command = [tool("java"), "-Xmx6g", "-cp", classpath(), "EsperStaged", str(epl), str(data), str(runs)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(done.stderr[-700:])
    found = []
    for line in done.stdout.splitlines():
        rows, checksum, seconds, used = line.split()
        found.append({"rows": int(rows), "checksum": int(checksum), "seconds": float(seconds), "bytes": int(used)})
    return found
