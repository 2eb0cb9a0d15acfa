"""`butler-ipam demo`: a story, played live on real API servers, and checked.

command.py   the command
player.py    plays a story step by step, and says which step did not happen
step.py      what a step is
world.py     what the API servers show, kept current by watching
cast.py      the objects of the story
sights.py    what must be seen, and how it is told
audit.py     the promise, checked over everything that was ever shown
farewell.py  its other half: tenants let go before their ranges are free
story.py     the story
"""

from reconcilers.cli.demo.command import demo

__all__ = ["demo"]
