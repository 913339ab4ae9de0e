"""Jars through Maven: coordinates in, a folder of jars out; fetched once, and kept under out/jars.

The Kafka connector should be of Spark's own version. Where the registry that Maven uses does not have it (yet), an
older set that is known to work with this Spark is taken, jar by jar, without asking for what the jars depend on.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent.parent
JARS = ROOT / "out" / "jars"
LISTED = "coordinates.txt"
PATIENCE = 600

KAFKA = "4.1.0"
BROKER = (f"org.apache.kafka:kafka_2.13:{KAFKA}", "org.slf4j:slf4j-simple:1.7.36")
OLDER_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


class MavenError(RuntimeError):
    """Maven is not there, or could not find what was asked for."""


@dataclass(frozen=True)
class Wanted:
    """Some artifacts, `group:artifact:version` each; alone, or with all that they depend on."""

    coordinates: tuple[str, ...]
    alone: bool = False

    def pom(self) -> str:
        """A project that has nothing but dependencies."""
        parts = "\n".join(self._dependency(*coordinate.split(":")) for coordinate in self.coordinates)
        return (
            '<project xmlns="http://maven.apache.org/POM/4.0.0">\n<modelVersion>4.0.0</modelVersion>\n'
            "<groupId>tocsin.tests</groupId>\n<artifactId>jars</artifactId>\n<version>1</version>\n"
            f"<packaging>pom</packaging>\n<dependencies>\n{parts}\n</dependencies>\n</project>\n"
        )

    def _dependency(self, group: str, artifact: str, version: str) -> str:
        names = "".join(
            f"<{tag}>{escape(text)}</{tag}>"
            for tag, text in (("groupId", group), ("artifactId", artifact), ("version", version))
        )
        every = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
        return f"<dependency>{names}{f'<exclusions>{every}</exclusions>' if self.alone else ''}</dependency>"


def broker() -> Path:
    """The folder with the jars of a Kafka broker."""
    return fetched(f"kafka-{KAFKA}", [Wanted(BROKER)])


def connector() -> list[Path]:
    """The jars that let the installed Spark read and write Kafka."""
    import pyspark

    own = Wanted((f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}",))
    folder = fetched(f"spark-kafka-{pyspark.__version__}", [own, Wanted(OLDER_CONNECTOR, alone=True)])
    return sorted(folder.glob("*.jar"))


def fetched(name: str, choices: Sequence[Wanted]) -> Path:
    """A folder with the jars of the first choice that Maven can find; `coordinates.txt` in it says which it was."""
    folder = JARS / name
    if (folder / LISTED).exists():
        return folder
    JARS.mkdir(parents=True, exist_ok=True)
    refused: list[str] = []
    for wanted in choices:
        try:
            _fetch(wanted, folder)
        except MavenError as error:
            refused.append(str(error))
        else:
            return folder
    raise MavenError("\n".join(refused))


def _fetch(wanted: Wanted, folder: Path) -> None:
    """Everything or nothing: the folder appears when it is complete."""
    program = shutil.which("mvn")
    if program is None:
        raise MavenError("the Kafka tests need Maven (`mvn`) to get their jars: install it and try again")
    with tempfile.TemporaryDirectory(dir=JARS) as name:
        place = Path(name)
        (place / "pom.xml").write_text(wanted.pom())
        command = [program, "-B", "-q", "-f", str(place / "pom.xml"), "dependency:copy-dependencies"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={place / 'jars'}", "-DincludeScope=runtime"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode != 0:
            raise MavenError(f"Maven did not find {', '.join(wanted.coordinates)}\n{done.stdout}{done.stderr}")
        (place / "jars" / LISTED).write_text("\n".join(wanted.coordinates) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        (place / "jars").rename(folder)
