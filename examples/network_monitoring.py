"""Network monitoring with intervals (Li 2010, 5.1): readings become intervals, these are correlated to a root cause.

A router reports its load every ten seconds, links go down and come up, and clients report timeouts. Of these thousands
of events three sentences remain: the load was high while a link was down, and timeouts began inside of that.

    python examples/network_monitoring.py
"""

from __future__ import annotations

from random import Random

import tocsin

RULES = """
-- filter and aggregate: thousands of readings become a few intervals
INTERVALS load FROM Load BY site
AS OVERLOAD WHEN percent > 90, NORMAL WHEN percent <= 90
MAX GAP 60 SELECT count(*) AS readings, max(percent) AS peak;

INTERVALS outage FROM LinkDown TO LinkUp BY site RESTART SELECT first(link) AS link;

INTERVALS complaints FROM Timeout BY site SESSION GAP 30 SELECT count(*) AS clients;

-- correlate: a link goes down, the load of the router rises while it is down, and then clients complain
QUERY RootCause
EVENT AND(outage o, OVERLOAD l, complaints c)
WHERE [site] AND l DURING o AND start(l) <= start(c) AND start(c) <= end(l) AND c.clients >= 3
WITHIN 1000
SELECT o.site AS site, o.link AS link, l.peak AS peak, c.clients AS clients
"""


def readings(seconds: int = 3600, seed: int = 1) -> list[dict[str, object]]:
    """An hour of two sites; at one of them a link fails for ten minutes."""
    random, events = Random(seed), list[dict[str, object]]()
    for site in ("north", "south"):
        for time in range(0, seconds, 10):
            failed = site == "south" and 1260 <= time <= 1740
            percent = round(random.gauss(97 if failed else 55, 1 if failed else 8))
            events.append({"type": "Load", "time": time, "site": site, "percent": percent})
        for time in range(7, seconds, 600):  # now and then a client gives up, without a reason
            events.append({"type": "Timeout", "time": time, "site": site, "client": random.randrange(1000)})
    events += [
        {"type": "LinkDown", "time": 1200, "site": "south", "link": "s-17"},
        {"type": "LinkUp", "time": 1800, "site": "south", "link": "s-17"},
    ]
    for time in range(1301, 1500, 13):
        events.append({"type": "Timeout", "time": time, "site": "south", "client": random.randrange(1000)})
    return sorted(events, key=lambda event: (event["time"], str(event["site"])))


def main() -> None:
    events = readings()
    rules = tocsin.query(RULES)
    rows = list(rules.detect(events))
    for name in ("load", "outage", "complaints"):
        print(f"{sum(row['query'] == name for row in rows):4} intervals of {name}")
    causes = [row for row in rows if row["query"] == "RootCause"]
    print(f"{len(events):,} events, {len(causes)} root cause:")
    for row in causes:
        print(f"  {row['site']}: link {row['link']} was down, load up to {row['peak']} %, {row['clients']} timeouts")
    assert [(row["site"], row["link"]) for row in causes] == [("south", "s-17")]


if __name__ == "__main__":
    main()
