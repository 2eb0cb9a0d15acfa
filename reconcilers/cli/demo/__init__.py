"""`butler-ipam demo`: a story, played live on real API servers, and checked.

command.py    the command
story.yaml    the steps: what people do, and what must come of it
story.py      the steps as they are played
steps.py      what a step is, how steps are played, and what people do in one
checks.py     what must be seen at the end of a step
promises.py   no overlap at any moment, no range free before its tenant let go
view.py       what the API servers show, kept current by watching
settings.py   how long things take, and the settings of each replica
"""

from reconcilers.cli.demo.command import demo

__all__ = ["demo"]
