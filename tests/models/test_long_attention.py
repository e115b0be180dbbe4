"""GPT and BERT with attention over a window and over Big Bird's blocks."""

import pytest
import torch
from torch.testing import assert_close

from regard import models
from regard.attention import recording

LENGTH = 40
FORMS = {"window": {"window": 5}, "big_bird": {"blocks": 4, "window": 4}}


def gpt(form: str, position: str = "rotary") -> torch.nn.Module:
    torch.manual_seed(0)
    sizes = {"vocabulary": 50, "layers": 2, "width": 32, "heads": 4, "maximum": 64, "dropout": 0.0}
    return models.build("gpt", **sizes, attention=form, position=position, **FORMS[form]).double().eval()


@pytest.mark.parametrize("position", ["rotary", "learned", "alibi"])
@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_a_step_from_a_cache_gives_what_the_whole_text_gives(form: str, position: str) -> None:
    """Prompts of three lengths in one batch, then five steps."""
    model, lengths = gpt(form, position), [LENGTH, 23, 7]
    tokens = torch.randint(4, 50, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    rows = [row[:length].tolist() for row, length in zip(tokens, lengths, strict=True)]
    for row, length in zip(tokens, lengths, strict=True):
        row[length:] = model.special.pad
    memory = model.encode(tokens, torch.tensor(lengths))
    logits, state = model.step(model.first(memory), model.start(memory))
    for step in range(5):
        for row, found in zip(rows, logits, strict=True):
            assert_close(found, model.output(model(torch.tensor([row])))[0, -1])
        new = torch.tensor([5 + step, 6 + step, 7 + step])
        for row, token in zip(rows, new.tolist(), strict=True):
            row.append(token)
        logits, state = model.step(new, state)


@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_another_token_changes_no_earlier_output_to_the_bit(form: str) -> None:
    model = gpt(form).float()
    tokens = torch.randint(4, 50, (1, 60), generator=torch.Generator().manual_seed(1))
    before = model(tokens)
    tokens[0, 37] = 4 + (tokens[0, 37] - 3) % 46
    after = model(tokens)
    assert torch.equal(after[:, :37], before[:, :37])
    assert not torch.equal(after[:, 37:], before[:, 37:])


@torch.no_grad()
def test_bert_with_every_block_global_is_exact() -> None:
    sizes = {"vocabulary": 50, "layers": 2, "width": 32, "heads": 4, "maximum": 64, "dropout": 0.0}
    exact = models.build("bert", **sizes).double().eval()
    all_global = models.build("bert", **sizes, attention="big_bird", blocks=4, **{"global": 16}).double().eval()
    all_global.load_state_dict(exact.state_dict())
    tokens = torch.randint(5, 50, (2, 64), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([64, 41])
    tokens[1, 41:] = exact.special.pad
    real = torch.arange(64) < lengths.unsqueeze(1)
    assert_close(all_global(tokens, lengths)[real], exact(tokens, lengths)[real])


@torch.no_grad()
def test_a_recorded_window_holds_the_last_positions_alone() -> None:
    model = gpt("window")
    with recording(model) as record:
        model(torch.randint(4, 50, (1, 30), generator=torch.Generator().manual_seed(1)))
    for path in record:
        i, j = torch.arange(30).unsqueeze(1), torch.arange(30)
        assert torch.equal(record[path][0, 0] > 0, (j <= i) & (j > i - 5))
