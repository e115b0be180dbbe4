"""How long a step of many processes takes, by arithmetic.

    step            = max(products, launches) + update + what of the exchange is not hidden
    products        = floating-point operations of a process's batch / rate
    launches        = operations × the time to start one
    update          = bytes that Adam reads and writes / rate of the memory
    all-reduce      = 2 (N − 1)/N · bytes / bandwidth + 2 (N − 1) · latency                     of a ring
    all-gather, reduce-scatter    half of that each
    hidden          = what fits behind the backward pass, two thirds of the products

Data parallel (DDP) exchanges the gradients by one all-reduce. Sharded (FSDP) gathers the weights twice, for the forward
and for the backward pass, and scatters the gradients once: three halves of the same volume.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

SINGLE = 4  # bytes of a number
TRAFFIC = 8 * SINGLE  # bytes a parameter: clipping reads g; Adam reads w, g, m, v and writes w, m, v
STATES = {"weights": SINGLE, "gradients": SINGLE, "Adam's moments": 2 * SINGLE}  # bytes a parameter
BUCKET = 25e6  # bytes that are exchanged at a time: the last ones have no backward pass to hide behind
BACKWARD = 2 / 3  # of the products


@dataclass(frozen=True)
class Device:
    """What one process computes with."""

    name: str
    flops: float  # floating-point operations a second that it reaches
    traffic: float  # bytes a second to and from its memory
    launch: float = 0.0  # seconds to start an operation
    overlap: float = 0.0  # the share of the time of products in which an exchange goes on at full speed
    number: int = SINGLE  # bytes of a number that is kept for the backward pass


@dataclass(frozen=True)
class Link:
    """What joins the processes: bytes a second that each can send while it receives as many, and seconds a message."""

    name: str
    bandwidth: float
    latency: float


@dataclass(frozen=True)
class Work:
    """A step of one process."""

    parameters: int
    targets: int
    flops: float  # forward and backward
    operations: float = 0.0  # how many are started
    activations: float = 0.0  # bytes that the forward pass keeps for the backward pass, in single precision

    def of(self, targets: int) -> Work:
        """The same for another number of targets; as many operations are started."""
        ratio = targets / self.targets
        return replace(self, targets=targets, flops=ratio * self.flops, activations=ratio * self.activations)

    @property
    def gradients(self) -> float:
        """Bytes."""
        return float(self.parameters * SINGLE)


@dataclass(frozen=True)
class Step:
    """Seconds of a step, and bytes that each process sends in it."""

    products: float
    update: float
    exchange: float
    exposed: float  # of the exchange
    sent: float

    @property
    def seconds(self) -> float:
        return self.products + self.update + self.exposed


def reduce_scatter(size: float, processes: int, link: Link) -> float:
    """N − 1 rounds, in each of which every process sends 1/N of the bytes to the next."""
    rounds = processes - 1
    return rounds * (size / processes / link.bandwidth + link.latency)


def all_gather(size: float, processes: int, link: Link) -> float:
    """The same rounds, with sums that are already whole."""
    return reduce_scatter(size, processes, link)


def all_reduce(size: float, processes: int, link: Link) -> float:
    return reduce_scatter(size, processes, link) + all_gather(size, processes, link)


def sent(size: float, processes: int, *, sharded: bool) -> float:
    """Bytes that each process sends in a step."""
    return (3 if sharded else 2) * (processes - 1) / processes * size


def step(work: Work, device: Device, link: Link, processes: int, *, sharded: bool = False, slower: float = 1.0) -> Step:
    """A step of so many processes. `slower` is how much longer each computes because they share cores."""
    products = slower * max(work.flops / device.flops, work.operations * device.launch)
    size = work.gradients
    exchange = all_reduce(size, processes, link)
    if sharded:
        exchange += all_gather(size, processes, link)
    hidden = device.overlap * products * (1.0 if sharded else BACKWARD)
    last = exchange * min(1.0, BUCKET / size)
    held = work.parameters / (processes if sharded else 1)
    return Step(
        products=products,
        update=slower * held * TRAFFIC / device.traffic,
        exchange=exchange,
        exposed=max(exchange - hidden, last),
        sent=sent(size, processes, sharded=sharded),
    )


def memory(work: Work, device: Device, processes: int, *, sharded: bool = False) -> dict[str, float]:
    """Bytes on each device, by what they hold."""
    held = work.parameters / (processes if sharded else 1)
    states = {name: each * held for name, each in STATES.items()}
    return {**states, "activations": work.activations * device.number / SINGLE}


def throughput(work: Work, step: Step, processes: int) -> float:
    """Targets a second of all processes."""
    return processes * work.targets / step.seconds


def line(sizes: tuple[float, float], seconds: tuple[float, float], processes: int, *, name: str) -> Link:
    """The link whose all-reduce of two sizes takes so long."""
    slope = (seconds[1] - seconds[0]) / (sizes[1] - sizes[0])
    rounds = 2 * (processes - 1)
    latency = max(seconds[0] - slope * sizes[0], 0.0) / rounds
    return Link(name, rounds / processes / slope, latency)
