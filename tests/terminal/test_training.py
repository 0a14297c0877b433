"""What a training trial says of itself while it runs."""

from tests.toys import toy_problem
from tune_mtl.terminal.training import TrainingScreen
from tune_mtl.training.config import resolve


def test_the_time_left_is_that_of_training_alone(capsys):
    screen = TrainingScreen()
    config = resolve(toy_problem(), {"strategy": "sus", "lr": 0.1, "epochs": 10})
    for epoch, seconds in ((1, 3.0), (4, 8.0), (10, 20.0)):
        screen.show({"epoch": epoch, "seconds": seconds, "train/loss": 1.0, "val/loss": 2.0}, config)
    assert [line.split("  ")[-1] for line in capsys.readouterr().out.splitlines()] == [
        "27 s left",
        "12 s left",
        "0 s left",
    ]
