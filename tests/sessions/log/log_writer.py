"""A process that labels until it is killed: log_writer.py URL PROJECT FIRST. Says what is stored, line by line."""

import sys

from understudy.sessions.log.events import Event
from understudy.sessions.log.log import EventLog

url, project, first = sys.argv[1:]
log = EventLog.open(url, project)
log.lock()
item = int(first)
while True:
    # Two events a call: a kill must not leave one of them alone.
    asked = Event("asked", item=item, annotator="ann")
    stored = log.append(Event("labelled", item=item, annotator="ann", key=f"k{item}"), asked)
    sys.stdout.write(f"{item} {stored[0].seq}\n")
    sys.stdout.flush()
    item += 1
