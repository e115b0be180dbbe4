"""Big Bird against transformers' own, with the same weights, at patterns that are handed over.

In theirs the first and the last block are global, and a random block that is global or in the window as well counts
once more in the softmax: while it is not training, each of theirs is block 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor
from torch.testing import assert_close
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention

from regard.attention import MultiHead, attend
from regard.attention.patterns import Blocks, Global, Matrix, Pattern, Random, Window
from regard.interchange.huggingface import import_directory
from regard.models import build
from regard.training.weights import weights_of

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
VOCABULARY, LENGTH, BLOCK, HEADS, RANDOM, LAYERS = 41, 64, 4, 2, 2, 2
COUNT = LENGTH // BLOCK
CLOSE = {"atol": 1e-4, "rtol": 1e-4}
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 12,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 17,
    "max_position_embeddings": LENGTH,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
Plan = list[np.ndarray]  # for each head, the random blocks of every block but the first and the last


def their_model() -> Any:
    torch.manual_seed(3)
    config = transformers.BigBirdConfig(**SIZES, block_size=BLOCK, num_random_blocks=RANDOM)
    model = transformers.BigBirdForMaskedLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "LayerNorm.weight" in name else 0.0, 0.4)
    return model


def our_model(theirs: Any, folder: Path) -> Any:
    """BERT with attention = "big_bird" and their weights, which have the names of BERT's."""
    bert = transformers.BertForMaskedLM(transformers.BertConfig(**SIZES))
    missing = bert.load_state_dict(theirs.state_dict(), strict=False)
    assert not missing.missing_keys
    assert all("pooler" in name for name in missing.unexpected_keys)
    bert.save_pretrained(folder)
    found = import_directory(folder)
    settings = found.config.model_dump(exclude={"kind"}, exclude_none=True)
    ours = build("bert", **settings | {"attention": "big_bird", "blocks": BLOCK, "random": RANDOM})
    ours.load_state_dict({**ours.state_dict(), **found.weights})
    assert weights_of(ours).keys() == found.weights.keys()
    return ours.eval()


def attentions(ours: Any) -> list[MultiHead]:
    return [module for module in ours.modules() if isinstance(module, MultiHead)]


def counted(plan: Plan) -> Tensor:
    """How often each block looks at each in theirs: (H, blocks, blocks)"""
    counts = torch.zeros(HEADS, COUNT, COUNT)
    for block in range(COUNT):
        counts[:, block, max(block - 1, 0) : block + 2] = 1
    counts[:, :, [0, -1]] = counts[:, [0, -1], :] = 1
    for head, rows in enumerate(plan):
        for block, drawn in enumerate(rows, start=1):
            for other in drawn:
                counts[head, block, int(other)] += 1
    return counts


def as_pattern(plan: Plan) -> Pattern:
    counts = counted(plan)
    assert counts.max() == 1, "blocks that count twice are not a pattern"
    assert 0 < counts.mean() < 0.8
    return Blocks(BLOCK, Matrix(counts.unsqueeze(0).bool()))


def use(plans: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let their layers take these plans, one after the other."""
    turn = iter(plans)
    monkeypatch.setattr(BigBirdBlockSparseAttention, "_bigbird_block_rand_mask_with_head", lambda *_, **__: next(turn))


def asked(shorter: int = LENGTH - 2 * BLOCK - 1) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(5, VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([LENGTH, shorter])
    tokens[1, shorter:] = 0
    return tokens, lengths


def compare(theirs: Any, ours: Any, tokens: Tensor, lengths: Tensor) -> None:
    real = torch.arange(LENGTH) < lengths.unsqueeze(1)
    with torch.no_grad():
        expected = theirs(tokens, attention_mask=real.long(), output_hidden_states=True)
        hidden = ours(tokens, lengths)
        assert_close(hidden[real], expected.hidden_states[-1][real], **CLOSE)
        assert_close(ours.words(hidden)[real], expected.logits[real], **CLOSE)


def test_their_own_plan_in_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = their_model().train()  # they draw blocks only in training; there is no dropout
    draw, plans = BigBirdBlockSparseAttention._bigbird_block_rand_mask_with_head, []

    def drawn(*arguments: Any, **settings: Any) -> Plan:
        plans.append(draw(*arguments, **settings))
        return plans[-1]

    monkeypatch.setattr(BigBirdBlockSparseAttention, "_bigbird_block_rand_mask_with_head", drawn)
    tokens, lengths = asked()
    with torch.no_grad():
        theirs(tokens, attention_mask=(torch.arange(LENGTH) < lengths.unsqueeze(1)).long())
    assert len(plans) == LAYERS
    ours = our_model(theirs, tmp_path)
    for attention, plan in zip(attentions(ours), plans, strict=True):
        attention.pattern = as_pattern(plan)
    compare(theirs, ours, tokens, lengths)


def test_our_own_pattern_in_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Window, the first block and random ones, as the recipe's key makes them; the last block is global in theirs."""
    theirs = their_model().eval()
    ours = our_model(theirs, tmp_path)
    plans: list[Plan] = []
    taken = counted([np.zeros((0, 0))] * HEADS)[0].bool()
    for layer, attention in enumerate(attentions(ours)):
        assert attention.pattern == Blocks(BLOCK, Window(3) | Global(1) | Random(RANDOM, seed=layer))
        drawn = Random(RANDOM, seed=layer).dense(COUNT, COUNT) & ~taken
        wanted = [drawn[block].nonzero().squeeze(1).tolist() for block in range(1, COUNT - 1)]
        # Theirs has equally many in every row: rows that drew a block of the window get another one, here as there.
        for block, row in enumerate(wanted, start=1):
            row += [other for other in range(COUNT) if not taken[block, other] and other not in row][
                : RANDOM - len(row)
            ]
        plans.append([np.array(wanted)] * HEADS)
        last = torch.zeros(COUNT, COUNT, dtype=torch.bool)
        last[-1], last[:, -1] = True, True
        filled = Matrix(counted(plans[-1])[0].bool() | last)
        attention.pattern = attention.pattern | Blocks(BLOCK, filled)
        expected = as_pattern(plans[-1]).dense(LENGTH, LENGTH)[0, 0]
        assert torch.equal(attention.pattern.dense(LENGTH, LENGTH), expected)
    use(plans, monkeypatch)
    compare(theirs, ours, *asked(LENGTH))  # theirs draws for the longest row, ours for each row by itself


def test_what_theirs_computes_without_training_is_a_bias_of_log_counts() -> None:
    """Block 0 counts 1 + RANDOM times in their softmax for every block but the first and the last."""
    attention = their_model().eval().bert.encoder.layer[0].attention.self
    x = torch.randn(1, LENGTH, SIZES["hidden_size"], generator=torch.Generator().manual_seed(2))  # type: ignore[call-overload]
    counts = counted([np.zeros((COUNT - 2, RANDOM))] * HEADS)
    assert counts.max() == 1 + RANDOM
    ones = torch.ones(1, LENGTH)
    masks = transformers.BigBirdModel.create_masks_for_block_sparse_attn(ones, BLOCK)
    with torch.no_grad():
        expected = attention(
            x,
            band_mask=masks[1],
            from_mask=masks[2],
            to_mask=masks[3],
            from_blocked_mask=masks[0],
            to_blocked_mask=masks[0],
        )[0]
        linear = attention.query, attention.key, attention.value
        projected = [each(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in linear]
    pattern = Blocks(BLOCK, Matrix(counts.unsqueeze(0).bool()))
    each = counts.repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)
    found = attend(*projected, pattern=pattern, bias=each.log().unsqueeze(0))
    assert_close(found.transpose(1, 2).flatten(2), expected, **CLOSE)
    once = attend(*projected, pattern=pattern).transpose(1, 2).flatten(2)
    assert (once - expected).abs().max() > 0.01
