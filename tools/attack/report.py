"""The report: counts by surface and outcome, findings by kind, and each finding as a file that can be tried again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tools.attack.core import DIED, DIFFERENT, FINE, HUNG, RAISED, Input, Outcome, as_text

SHOWN = 300  # letters of a problem; the file has all of it
WORDS = (*FINE, DIFFERENT, RAISED, DIED, HUNG)


@dataclass(slots=True)
class Finding:
    """One kind of finding: its first input, and how often it came."""

    surface: str
    number: int
    outcome: Outcome
    file: Path | None = None
    count: int = 1


@dataclass(slots=True)
class Report:
    """What became of all inputs."""

    seed: int
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)

    def add(self, surface: str, number: int, outcome: Outcome) -> Finding | None:
        """Count an outcome; return the finding if it is the first of its kind."""
        self.counts[surface, outcome.word] += 1
        if outcome.fine:
            return None
        kind = f"{surface}: {outcome.kind}"
        if kind in self.findings:
            self.findings[kind].count += 1
            return None
        self.findings[kind] = Finding(surface, number, outcome)
        return self.findings[kind]

    @property
    def total(self) -> int:
        return self.counts.total()

    def show(self, console: Console) -> None:
        """Print the tables."""
        table = Table("surface", *WORDS, title=f"{self.total:,} inputs, seed {self.seed}", title_justify="left")
        for name in dict.fromkeys(name for name, _ in self.counts):
            table.add_row(
                name, *(f"{self.counts[name, word] or '':,}" if self.counts[name, word] else "" for word in WORDS)
            )
        console.print(table)
        if not self.findings:
            console.print("no findings: every input was answered rightly or refused")
            return
        found = Table("surface", "number", "times", "what", "try again", title=f"{len(self.findings)} kinds of finding")
        for each in self.findings.values():
            again = (
                f"--replay {each.file}"
                if each.file
                else f"--seed {self.seed} --surface {each.surface} --only {each.number}"
            )
            found.add_row(
                each.surface,
                str(each.number),
                str(each.count),
                f"{each.outcome.word}: {each.outcome.problem[:SHOWN]}",
                again,
            )
        console.print(found)


def keep(finding: Finding, seed: int, given: Input, folder: Path) -> Path:
    """Write a finding down: what happened, how to draw it, and its input made small."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{finding.surface}-{finding.number}.json"
    told = {
        "surface": finding.surface,
        "seed": seed,
        "number": finding.number,
        "outcome": finding.outcome.word,
        "problem": finding.outcome.problem,
        "place": finding.outcome.place,
        "input": given,
    }
    path.write_text(as_text(told, indent=1) + "\n", encoding="utf-8")
    return path
