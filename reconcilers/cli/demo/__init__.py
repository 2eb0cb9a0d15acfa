"""`butler-ipam demo`: a story, played live on real API servers, and checked.

command.py    the command
player.py     plays a story step by step, and says which step did not happen
step.py       what a step is, and what people do in one
world.py      what the API servers show, kept current by watching
cast.py       the objects of the story
timing.py     how long things take, and what each replica is told
sights/       what must be seen, and how it is told
attempts.py   writes that must be refused, or warned of
handover.py   the leader is lost in the midst of its work
silence.py    a tenant that never answers
audit.py      the promise, checked over everything that was ever shown
farewell.py   its other half: tenants let go before their ranges are free
chapters/     the steps
story.py      the story: all chapters in order
"""

from reconcilers.cli.demo.command import demo

__all__ = ["demo"]
