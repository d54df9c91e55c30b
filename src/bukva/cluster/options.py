"""Options that several commands have."""

from typing import Annotated

import typer

SWEEP = typer.Argument(help="name of a sweep; the last one if there is none", show_default=False)
Setting = Annotated[
    list[str] | None, typer.Option("-S", help="as of dvc exp run: SECTION.KEY=VALUE, or several values with commas")
]
Name = Annotated[str, typer.Option(help="of the sweep; made of commit and settings without it")]
Slots = Annotated[int, typer.Option(help="experiments at the same time, on this machine; 0: one for each GPU, or core")]
Address = Annotated[str, typer.Option(help="HOST:PORT of a Ray cluster; this machine without it")]
Cores = Annotated[int, typer.Option(help="cores of each experiment in a cluster, on each machine", min=1)]
Gpus = Annotated[float, typer.Option(help="GPUs of each experiment in a cluster, on each machine", min=0)]
Nodes = Annotated[int, typer.Option(help="machines of each experiment, which train one model in a cluster", min=1)]
