"""The toy run with its checkpoints and without a directory of its own: fitted, killed, compared."""

from toy_run import Following, toy, validate

from faulty_disk import Killed
from regard.training import randomness, watchers
from regard.training.checkpoint import Checkpoints
from regard.training.loop import fit
from regard.training.schedule import inverse_sqrt
from regard.training.weights import to_bytes, weights_of


def rate(step):
    return inverse_sqrt(step, learning_rate=0.03, warmup=7)


def train(directory, *first, last=(), **changes):
    """Fit the toy with its checkpoints, from where they are; `first` and `last` are more watchers."""
    run, checkpoints = toy(**changes), Checkpoints(directory)
    randomness.seed(run.config.seed)
    checkpoints.resume(run)
    usual = [
        watchers.update_moving_average,
        watchers.record,
        watchers.Validation(validate),
        watchers.Saving(checkpoints),
    ]
    fit(run, Following(), schedule=rate, watchers=[*first, *usual, *last])
    if checkpoints.newest != run.step:
        checkpoints.save(run)
    return run, checkpoints


def everything(run):
    """All that must be equal, as bytes and numbers."""
    tensors, numbers = randomness.capture()
    moments = {
        f"{index}/{name}": tensor
        for index, state in run.optimiser.state_dict()["state"].items()
        for name, tensor in state.items()
    }
    shadow = run.moving.weights if run.moving else {}
    losses = [(point["step"], point["loss"]) for point in run.history]
    files = [to_bytes(each) for each in (weights_of(run.model), moments, shadow, tensors)]
    return files, numbers, (run.epoch, run.position), run.validations, losses, run.tokens


def dies_at(step):
    def watch(run):
        if run.step == step:
            raise Killed

    return watch
