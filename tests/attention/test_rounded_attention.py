"""A layer of attention that stays in half precision, against the same layer in single precision."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from regard.attention import rounded
from regard.attention.heads import MultiHead
from regard.attention.patterns import Causal, Matrix, Padding, Pattern
from regard.attention.positions import Rotary
from regard.errors import RegardError
from regard.kernels.linear import set_products
from regard.training.flops import Counting

WIDTH, HEADS = 22, 2


def inputs(queries: int, keys: int | None, memory_width: int = WIDTH) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = [(3, queries, WIDTH)] + ([] if keys is None else [(3, keys, memory_width)])
    return [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]


def layer(*, bias: bool = True, memory_width: int = WIDTH) -> MultiHead:
    torch.manual_seed(0)
    made = MultiHead(WIDTH, heads=HEADS, bias=bias, memory_width=memory_width)
    for name, parameter in made.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    return made


def both_ways(
    attention: MultiHead, sides: list[Tensor], pattern: Pattern | None
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """Output and gradients, rounded and exact."""
    above, found = torch.randn(sides[0].shape, generator=torch.Generator().manual_seed(2)), []
    learned = [p for p in attention.parameters() if p.requires_grad]
    for precision in (torch.bfloat16, torch.float32):
        set_products(attention, precision)
        out = attention(*sides, pattern=pattern)
        found.append([out, *torch.autograd.grad(out, [*sides, *learned], above)])
    return found[0], found[1]


def assert_near(found: list[Tensor | None], wanted: list[Tensor | None]) -> None:
    for mine, reference in zip(found, wanted, strict=True):
        assert mine is not None
        assert reference is not None
        assert mine.dtype == torch.float32
        # the gradient to the bias of the keys is zero: it is compared with what its rounded terms could be
        assert (mine - reference).norm() < 0.02 * max(reference.norm(), mine.numel() ** 0.5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("queries", "keys", "pattern"),
    [
        (5, None, None),
        (16, None, Causal()),
        (17, None, Causal()),
        (7, None, Padding(torch.tensor([7, 1, 4]))),
        (19, 5, Padding(torch.tensor([5, 1, 4]))),
        (3, 33, Padding(torch.tensor([33, 20, 1]))),
        (2, 3, Matrix(torch.tensor([[True, False, True], [False, True, True]]))),
    ],
)
def test_output_and_gradients_are_near_those_of_single_precision(
    queries: int, keys: int | None, pattern: Pattern | None, bias: bool
) -> None:
    found, wanted = both_ways(layer(bias=bias), inputs(queries, keys), pattern)
    assert not torch.equal(found[0], wanted[0])  # type: ignore[arg-type]
    assert_near(found, wanted)


def test_a_memory_of_another_width_and_maps_that_do_not_learn() -> None:
    attention = layer(memory_width=13)
    attention.key.requires_grad_(False)
    attention.output.bias.requires_grad_(False)
    assert_near(*both_ways(attention, inputs(4, 6, 13), None))
    x, memory = inputs(4, 6, 13)
    assert not attention(x.detach(), memory.detach()).isnan().any()


def test_a_query_that_may_look_at_nothing_gives_the_bias_of_the_output() -> None:
    attention, sides = layer(), inputs(2, None)
    found, wanted = both_ways(attention, sides, Matrix(torch.tensor([[False, False], [True, True]])))
    assert_near(found, wanted)
    assert_close(found[0][:, 0], attention.output.bias.expand(3, -1), atol=2**-7, rtol=2**-7)  # type: ignore[index]


def test_a_row_does_not_depend_on_the_others_of_its_batch() -> None:
    attention, (x,) = layer(), inputs(6, None)
    set_products(attention, torch.bfloat16)
    pattern = Padding(torch.tensor([6, 2, 4]))
    whole = attention(x, pattern=pattern)
    changed = torch.cat([x[:1], torch.randn_like(x[1:])])
    assert torch.equal(attention(changed, pattern=pattern)[:1], whole[:1])


def test_evaluation_and_other_scores_positions_and_lengths_take_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Tensor:
        raise AssertionError("this is not for the rounded layer")

    plain, (x,) = layer(), inputs(5, None)
    others = [MultiHead(24, heads=2, position=Rotary()), MultiHead(24, heads=2, score="cosine")]
    others.append(MultiHead(24, heads=4, key_value_heads=2))
    set_products(nn.ModuleList([plain, *others]), torch.bfloat16)
    monkeypatch.setattr("regard.attention.heads.attend_rounded", refuse)
    with pytest.raises(AssertionError, match="not for"):
        plain(x)
    for other in others:
        other(torch.randn(2, 5, 24))
    plain(x[:, :0])
    plain(x[:, :0], x)
    plain(torch.zeros(1, rounded.MOST_KEYS + 1, WIDTH))
    plain.eval()(x)


def test_a_memory_of_a_wrong_width_or_batch_is_refused() -> None:
    attention, (x, memory) = layer(), inputs(4, 6)
    set_products(attention, torch.bfloat16)
    with pytest.raises(RegardError, match="memory has shape"):
        attention(x, memory[..., :13])
    with pytest.raises(RegardError, match="key has batch 2"):
        attention(x, memory[:2])


def test_its_products_are_counted() -> None:
    """Four maps and two products of 16 keys for each head, and twice as many backward."""
    attention, (x,) = layer(), inputs(16, None)
    set_products(attention, torch.bfloat16)
    with Counting() as counting:
        attention(x).sum().backward()
    maps = 2 * 64 * 4 * WIDTH * WIDTH  # 48 rows, filled up to 64
    assert counting.total == 3 * (maps + 2 * 2 * 3 * 16 * 16 * WIDTH)
