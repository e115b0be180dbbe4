"""How to learn: the [training] part of a recipe."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from regard.checking import Settings

Share = Annotated[float, Field(ge=0, lt=1)]
MOST_STEPS = 10**8 - 1  # the names of checkpoints have eight digits


class DistributionConfig(Settings):
    """What several processes share while they learn together. A process that is alone has all, whatever this says."""

    kind: Literal["replicated", "sharded"] = Field(
        "replicated",
        description="each process has the whole model, or a part of every weight and its moments (less memory)",
    )

    def divides(self, processes: int) -> bool:
        """Whether each of so many processes has a part of the model."""
        return self.kind == "sharded" and processes > 1


class TrainingConfig(Settings):
    """A step is one update of the weights. Where a number switches something on, 0 leaves it off."""

    steps: int = Field(10_000, ge=1, le=MOST_STEPS, description="updates to make at most; schedules end here")
    minutes: float | None = Field(
        None, gt=0, description="plan for this long: as many steps as fit, and a schedule that ends with them"
    )
    batch_tokens: int = Field(4096, ge=1, le=10**9, description="target tokens in a batch, padding included")
    batch_size: int = Field(128, ge=1, le=10**9, description="examples in a batch, where they are no texts")
    accumulate: int = Field(1, ge=1, le=10_000, description="batches whose gradients are summed into one update")

    learning_rate: float = Field(0.001, gt=0, description="highest rate; for noam the factor before the formula")
    lowest_rate: float = Field(
        0.0, ge=0, description="the rate that cosine and linear end at, and any schedule with minutes"
    )
    warmup: int = Field(1000, ge=0, le=MOST_STEPS, description="steps of linear rise to the highest rate")
    schedule: Literal["noam", "inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    optimiser: Literal["adam", "adamw", "muon"] = Field(
        "adam", description="muon: matrices by Muon, which needs fewer steps, and everything else by AdamW"
    )
    momentum: Share = Field(0.95, description="muon: memory of the gradient of a matrix")
    betas: tuple[Share, Share] = Field(
        (0.9, 0.98), strict=False, description="memory of the gradient's mean and of its square"
    )
    epsilon: float = Field(1e-9, gt=0, description="added to the square root that divides the gradient's mean")
    weight_decay: float = Field(0.0, ge=0, description="on matrices only: not on biases, norms, embeddings, positions")
    clip: float = Field(
        1.0, ge=0, description="largest norm of the gradient; longer ones are scaled down; 0 never scales"
    )
    label_smoothing: Share = Field(
        0.0, description="probability moved from the target to all others alike; 0.1 for pairs of text unless given"
    )
    r_drop: float = Field(0.0, ge=0, description="weight of the divergence between two passes with different dropout")
    freeze: Annotated[int, Field(ge=0, le=10**6)] | Literal["all"] = Field(
        0, description='fine-tuning: keep the embeddings and this many lower layers fixed, or "all"; elmo: "all"'
    )
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="fine-tuning: the rate of a layer divided by that of the next"
    )
    lora: int = Field(
        0, ge=0, le=2**16, description="fine-tuning: learn only a change of this rank to queries and values"
    )
    max_skips: int = Field(
        10, ge=0, le=MOST_STEPS, description="steps in a row that may be skipped because loss or gradient is not finite"
    )
    ema: Share = Field(0.0, description="decay of the moving average of the weights, for example 0.999")

    validate_every: int = Field(500, ge=0, le=MOST_STEPS, description="steps between validations; 0 never validates")
    checkpoint_every: int = Field(500, ge=1, le=MOST_STEPS, description="steps between checkpoints")
    keep: int = Field(2, ge=1, le=MOST_STEPS, description="newest checkpoints kept whole, to resume from")
    patience: int = Field(0, ge=0, le=MOST_STEPS, description="stop after this many validations without a better one")
    average: int = Field(1, ge=1, le=MOST_STEPS, description="checkpoints averaged into the final weights")
    average_of: Literal["last", "best"] = Field("last", description="those checkpoints, or the best validated")
    record_every: int = Field(50, ge=1, le=MOST_STEPS, description="steps between points of the learning curve")

    seed: int = Field(1, ge=0, lt=2**32)
    precision: Literal["float32", "bfloat16", "auto"] = Field("auto", description="of products while learning")
    device: str = Field("auto", description='"cpu", "cuda", "cuda:1", "mps"; auto takes a GPU if there is one')
    threads: int = Field(0, ge=0, description="CPU threads; 0 takes all")
    tensorboard: bool = Field(False, description="write event files too; needs the extra regard[tensorboard]")
    distribution: DistributionConfig = Field(default_factory=DistributionConfig, description="of several processes")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.lowest_rate > self.learning_rate:
            raise ValueError(f"lowest_rate={self.lowest_rate:g} exceeds learning_rate={self.learning_rate:g}; lower it")
        if self.schedule in ("noam", "inverse_sqrt") and self.warmup == 0:
            raise ValueError(
                f'schedule="{self.schedule}" falls from the end of its warm-up, so warmup=0 leaves it undefined; '
                'try warmup=1000, or schedule="cosine"'
            )
        if self.patience and not self.validate_every:
            raise ValueError(
                f"patience={self.patience} counts validations and validate_every=0 makes none; "
                f"try validate_every={self.checkpoint_every}, or patience=0"
            )
        if self.average_of == "best" and not self.validate_every:
            raise ValueError(
                'average_of="best" ranks checkpoints by validation and validate_every=0 makes none; '
                f'try validate_every={self.checkpoint_every}, or average_of="last"'
            )
        if self.average_of == "best" and self.checkpoint_every % max(self.validate_every, 1):
            raise ValueError(
                f'average_of="best" ranks every checkpoint by its validation, but validate_every={self.validate_every} '
                f"skips some at checkpoint_every={self.checkpoint_every}; try checkpoint_every={self.validate_every}"
            )
        if self.distribution.kind == "sharded" and self.optimiser == "muon":
            raise ValueError(
                'optimiser="muon" needs whole matrices, and distribution.kind="sharded" divides them; try '
                'distribution.kind="replicated", or optimiser="adamw"'
            )
        if self.distribution.kind == "sharded" and self.device.startswith("mps"):
            raise ValueError(
                'distribution.kind="sharded" is for CPUs and CUDA, and not for device="mps"; try '
                'distribution.kind="replicated", or device="cpu"'
            )
        if self.distribution.kind == "sharded" and ":" in self.device:
            raise ValueError(
                f'distribution.kind="sharded" needs a device for each process, and device="{self.device}" is only one; '
                f'try device="{self.device.partition(":")[0]}"'
            )
        return self
