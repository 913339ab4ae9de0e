"""A Kafka broker on loopback: one process, its own controller (KRaft), its log in a temporary folder."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.servers import maven
from tests.servers.processes import LOOPBACK, Started, free_ports, started, wait_for
from tocsin.spark.setup.java import use_java

if TYPE_CHECKING:
    from confluent_kafka import Consumer

START = 120.0
ANSWER = 30.0
QUICK = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


@dataclass(frozen=True)
class Broker:
    """A running broker: its address for clients, and what a test asks of it."""

    address: str
    server: Started

    def create(self, topic: str, partitions: int) -> None:
        """A new topic with so many partitions."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.address})
        for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            made.result(timeout=ANSWER)

    def produce(self, topic: str, records: Iterable[tuple[int, dict[str, Any]]]) -> None:
        """Records as JSON, each to the partition beside it; taken when this returns."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True, "log_level": 3})
        for partition, record in records:
            producer.produce(topic, value=json.dumps(record), partition=partition)
        left = producer.flush(ANSWER)
        assert left == 0, f"{left} records were not taken"

    def everything(self, topic: str) -> list[dict[str, Any]]:
        """All records of a topic, partition by partition, from the first to the last that is there now."""
        from confluent_kafka import Consumer

        consumer = Consumer(
            {"bootstrap.servers": self.address, "group.id": f"test-{uuid.uuid4()}", "enable.auto.commit": False}
        )
        try:
            partitions = consumer.list_topics(topic, timeout=ANSWER).topics[topic].partitions
            return [record for number in partitions for record in _partition(consumer, topic, number)]
        finally:
            consumer.close()


def _partition(consumer: Consumer, topic: str, number: int) -> Iterator[dict[str, Any]]:
    from confluent_kafka import TopicPartition

    low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER)
    consumer.assign([TopicPartition(topic, number, low)])
    at = low
    while at < high:
        message = consumer.poll(ANSWER)
        assert message is not None, f"{topic}/{number}: nothing after offset {at}, {high} expected"
        assert message.error() is None, message.error()
        at = message.offset() + 1
        yield json.loads(message.value())


@contextmanager
def running(folder: Path) -> Iterator[Broker]:
    """A broker that answers; ended when the block is left."""
    folder.mkdir(parents=True, exist_ok=True)
    jars = f"{maven.broker()}/*"
    port, controller = free_ports(2)
    config = folder / "server.properties"
    config.write_text(_properties(port, controller, folder / "data"))
    java = [_java(), *QUICK, "-cp", jars]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)],
        check=True,
        capture_output=True,
        timeout=START,
    )
    command = [*java, "kafka.Kafka", str(config)]
    with started("kafka", command, log=folder / "kafka.log", env=os.environ, cwd=folder) as server:
        broker = Broker(f"{LOOPBACK}:{port}", server)
        wait_for("the broker", lambda: _answers(broker.address), timeout=START, needs=[server])
        yield broker


def _properties(port: int, controller: int, data: Path) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _answers(address: str) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        return bool(admin.list_topics(timeout=1.0).brokers)
    except KafkaException:
        return False


def _java() -> str:
    """The Java that Spark would use."""
    found = use_java()
    assert found is not None
    return str(found.executable)
