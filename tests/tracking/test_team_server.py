"""A team's server: MLflow on PostgreSQL with an artifact store; a search against it, and what is left of it."""

import json
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import sqlalchemy

import tune_mtl
from tests.experiment.processes import fresh_environment
from tests.experiment.records import check_records
from tests.test_cli import tune_mtl as command
from tests.toys import toy_problem
from tests.tracking.many import fill
from tests.tracking.postgres import postgresql, programs
from tests.tracking.server import mlflow_server
from tune_mtl import UserError
from tune_mtl.experiment.manage import remove
from tune_mtl.results.searches import best_by_strategy
from tune_mtl.tracking.store import reachable

needs_postgresql = pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed (initdb)")
DATABASE_PASSWORD, LOGIN_PASSWORD = "db-7f3b9c1e", "login-c55e0a42"
PROBLEM = "tests.trainables.fixtures:problem"


@pytest.fixture(scope="module")
def database():
    with postgresql(DATABASE_PASSWORD) as uri:
        yield uri


@pytest.fixture(scope="module")
def team(database, tmp_path_factory):
    """A server; its folder of artifacts; its log."""
    folder = tmp_path_factory.mktemp("team")
    with mlflow_server(database, folder / "artifacts", folder / "server.log") as address:
        yield address, folder


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_MTL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def holding(secret: str, folder: Path) -> list[Path]:
    """The files below ``folder`` that hold ``secret``, packed ones aside."""
    found = subprocess.run(["grep", "--recursive", "--files-with-matches", "--text", secret, str(folder)], stdout=-1)
    return [Path(line) for line in found.stdout.decode().splitlines()]


def everything_said(database: str) -> str:
    """All texts that the database holds: tags, params, experiments, runs."""
    engine = sqlalchemy.create_engine(database)
    with engine.connect() as connection:
        tables = sqlalchemy.inspect(engine).get_table_names()
        rows = [row for table in tables for row in connection.execute(sqlalchemy.text(f'SELECT * FROM "{table}"'))]
    engine.dispose()
    return "\n".join(map(str, rows))


@needs_postgresql
@pytest.mark.slow
@pytest.mark.timeout(280)
def test_a_search_against_a_teams_server(team, database, home):
    address, folder = team
    uri = f"http://team:{LOGIN_PASSWORD}@{address}"
    words = ["search", PROBLEM, "--name", "shared", "--strategies", "sus,io", "--samples", "4", "--max-epochs", "2"]
    places = ["--storage", str(home / "storage"), "--tracking-uri", uri]
    done = command(*words, *places, "--no-report", env=fresh_environment(home), timeout=250)
    assert done.returncode == 0, done.stderr
    parent, _ = check_records("shared", trials=4, tracking_uri=uri)
    assert parent.info.artifact_uri.startswith("mlflow-artifacts:/")

    found = tune_mtl.best("shared", tracking_uri=uri)
    assert found == tune_mtl.best("shared", tracking_uri=uri, recompute=True)
    problem = toy_problem(4)
    batch = problem.data("val").everything
    predictions = found.load_model()(batch.inputs)
    losses = [task.loss(predictions[task.name], batch.targets[task.name]).item() for task in problem.tasks]
    assert sum(losses) / 4 == pytest.approx(found.value, rel=1e-4)
    written = tune_mtl.report("shared", tracking_uri=uri)
    assert written.page.exists()
    assert list((folder / "artifacts").rglob("report/index.html")), "the page is an artifact of the search's run"

    said = done.stdout + done.stderr + everything_said(database)
    assert "shared" in said
    assert holding("shared", home), "this is how it is looked for"
    for secret in (DATABASE_PASSWORD, LOGIN_PASSWORD):
        assert secret not in said
        assert holding(secret, home) == []
        assert holding(secret, folder) == []

    assert remove("shared", uri) == 5
    assert not (home / "storage" / "shared").exists()
    with pytest.raises(UserError, match="there is no search 'shared'") as refused:
        tune_mtl.best("shared", tracking_uri=uri)
    assert LOGIN_PASSWORD not in str(refused.value)


@needs_postgresql
@pytest.mark.slow
def test_the_server_turns_strangers_away(team):
    address, _ = team
    body = json.dumps({"max_results": 1}).encode()
    url = f"http://{address}/api/2.0/mlflow/experiments/search"
    for header in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        request = urllib.request.Request(url, body, {"Content-Type": "application/json", **header})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=30)
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    assert urllib.request.urlopen(request, timeout=30).status == 200


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgresql)])
def store(request, home):
    if request.param == "postgresql":
        return request.getfixturevalue("database")
    uri = f"sqlite:///{home / 'many.db'}"
    reachable(uri)
    return uri


class Statements:
    """How many the engines send, while it is entered."""

    def __enter__(self):
        self.sent = 0
        sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", self._count)
        return self

    def __exit__(self, *_):
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", self._count)

    def _count(self, *_):
        self.sent += 1


@pytest.mark.slow
def test_best_asks_as_much_of_many_trials_as_of_few_and_answers_the_same(store):
    asked = {}
    for trials in (30, 300):
        fill(store, f"of-{trials}", trials)
        kept = tune_mtl.best(f"of-{trials}", tracking_uri=store)
        with Statements() as statements:
            assert tune_mtl.best(f"of-{trials}", tracking_uri=store) == kept
        asked[trials] = statements.sent
        assert tune_mtl.best(f"of-{trials}", tracking_uri=store, recompute=True) == kept
        kept_all = best_by_strategy(f"of-{trials}", tracking_uri=store)
        assert len(kept_all) == 3
        assert best_by_strategy(f"of-{trials}", tracking_uri=store, recompute=True) == kept_all
        assert list(kept_all) == sorted(kept_all, key=lambda strategy: kept_all[strategy].value)
    assert asked[30] == asked[300] > 0
