"""Reading recordings and tables of values: CSV, Parquet, and all that can be wrong with them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from testbed.workload import sample_trace
from testbed.workload.arrivals import Trace
from testbed.workload.distributions import Empirical

SHIPPED = Path(sample_trace.__file__).parent / "data" / "sample_trace.csv"


def csv(folder: Path, text: str) -> str:
    path = folder / "jobs.csv"
    path.write_text(text)
    return str(path)


def as_parquet(folder: Path, **columns: Any) -> str:
    path = folder / "jobs.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    return str(path)


def test_csv_and_parquet_say_the_same(tmp_path: Path) -> None:
    text = "when,bytes,class,other\n1.5,2,web,x\n2,0.5,db,y\n4,1,web,z\n"
    table = {"when": [1.5, 2.0, 4.0], "bytes": [2.0, 0.5, 1.0], "class": ["web", "db", "web"]}
    for file in (csv(tmp_path, text), as_parquet(tmp_path, **table)):
        recording = Trace(file=file, arrival="when", size="bytes", type="class").recording
        assert recording.arrival.tolist() == [0, 0.5, 2.5]
        assert recording.size is not None
        assert recording.size.tolist() == [2, 0.5, 1]
        indices = recording.type_indices(["db", "web"])
        assert indices is not None
        assert indices.tolist() == [1, 0, 1]


def test_sizes_and_types_may_be_absent_under_their_usual_names(tmp_path: Path) -> None:
    recording = Trace(file=csv(tmp_path, "arrival\n1\n2\n")).recording
    assert recording.size is None
    assert recording.type is None
    assert recording.type_indices(["a", "b"]) is None


def test_types_may_be_indices_but_names_come_first(tmp_path: Path) -> None:
    recording = Trace(file=csv(tmp_path, "arrival,type\n1,1\n2,0\n3,1\n")).recording
    for names, expected in ((["a", "b"], [1, 0, 1]), (["1", "0"], [0, 1, 0]), (["only"], [0, 0, 0])):
        indices = recording.type_indices(names)
        assert indices is not None
        assert indices.tolist() == expected


def test_file_is_read_once(tmp_path: Path) -> None:
    trace = Trace(file=csv(tmp_path, "arrival\n1\n2\n"))
    first = trace.recording
    csv(tmp_path, "arrival\n7\n9\n")
    assert trace.recording is first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "jobs.csv can't be read as a CSV file: .*[Ee]mpty"),
        ("arrival\n", "jobs.csv has no rows"),
        ("arrival,size\n1,2\n3\n", "jobs.csv can't be read as a CSV file: .*columns"),
        ("time,size\n1,2\n3,4\n", "jobs.csv has no column 'arrival'; its columns are 'time', 'size'"),
        ("arrival\n1\n", "jobs.csv has a single arrival: a recording needs at least two"),
        ("arrival\n1\n3\n2\n", r"'arrival' must not decrease, but row 3 is 2 after 3: sort the file"),
        ("arrival\n2\n2\n", "all arrivals in column 'arrival' are at 2"),
        ("arrival\n1\nsoon\n3\n", "column 'arrival' must hold finite numbers, but row 2 is 'soon'"),
        ("arrival,size\n1,1\n,2\n3,3\n", "column 'arrival' must hold finite numbers, but row 2 is empty"),
        ("arrival\n1\n2\ninf\n", "column 'arrival' must hold finite numbers, but row 3 is inf"),
        ("arrival\ntrue\nfalse\n", "column 'arrival' must hold finite numbers, but row 1 is True"),
        ("arrival,size\n1,1\n2,-0.5\n", "column 'size' must be at least 0, but row 2 is -0.5"),
        ("arrival,size\n1,big\n2,1\n", "column 'size' must hold finite numbers, but row 1 is 'big'"),
    ],
)
def test_unfit_recordings_are_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    trace = Trace(file=csv(tmp_path, text))
    with pytest.raises(ValueError, match=message):
        _ = trace.natural_rate


def test_missing_and_malformed_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file .*none\.csv: check the name and the folder"):
        _ = Trace(file=str(tmp_path / "none.csv")).recording
    with pytest.raises(ValueError, match="there is no file"):
        _ = Trace(file=str(tmp_path)).recording
    (tmp_path / "x.parquet").write_text("arrival\n1\n")
    with pytest.raises(ValueError, match=r"x\.parquet can't be read as a Parquet file"):
        _ = Trace(file=str(tmp_path / "x.parquet")).recording


def test_columns_that_are_named_must_be_there(tmp_path: Path) -> None:
    file = csv(tmp_path, "arrival\n1\n2\n")
    with pytest.raises(ValueError, match="has no column 'bytes'; its columns are 'arrival'"):
        _ = Trace(file=file, size="bytes").recording
    with pytest.raises(ValueError, match="has no column 'class'; its columns are 'arrival'"):
        _ = Trace(file=file, type="class").recording


@pytest.mark.parametrize(("value", "shown"), [("db", "'db'"), (2, "2"), (-1, "-1"), (None, "None")])
def test_unknown_types_are_refused_with_the_row(tmp_path: Path, value: Any, shown: str) -> None:
    types = ["0", value, "1"] if isinstance(value, str) else [0, value, 1]
    recording = Trace(file=as_parquet(tmp_path, arrival=[1, 2, 3], type=types)).recording
    with pytest.raises(
        ValueError, match=f"the type in row 2 is {shown}, but the workload's types are '0', '1', or 0 to 1"
    ):
        recording.type_indices(["0", "1"])


def test_empirical_distribution_reads_a_column(tmp_path: Path) -> None:
    file = csv(tmp_path, "size,weight\n1,4\n3,4\n2,10\n")
    assert Empirical(file=file).sorted_values.tolist() == [1, 2, 3]
    distribution = Empirical(file=file, column="weight")
    assert distribution.mean == 6
    assert distribution.variance == pytest.approx(8)
    assert distribution.cdf(4.0) == pytest.approx(2 / 3)
    assert distribution.scaled(0.5) == Empirical(values=(2.0, 2.0, 5.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bytes\n1\n", r"jobs\.csv has no column 'size'; its columns are 'bytes'"),
        ("size\n1\nx\n", "column 'size' must hold finite numbers, but row 2 is 'x'"),
        ("size\n1\n-2\n", r"column 'size' of .*jobs\.csv: value 2 must be a finite number of at least 0, but is -2"),
        ("size\n0\n0\n", r"column 'size' of .*jobs\.csv has only zeros"),
    ],
)
def test_unfit_values_are_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    distribution = Empirical(file=csv(tmp_path, text))
    with pytest.raises(ValueError, match=message):
        _ = distribution.mean


def test_shipped_recording_is_what_its_module_writes(tmp_path: Path) -> None:
    sample_trace.write(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == SHIPPED.read_bytes()


def test_shipped_recording_looks_real() -> None:
    trace = Trace(file="sample")
    recording = trace.recording
    assert recording.size is not None
    kinds = recording.type_indices(["interactive", "batch"])
    assert kinds is not None
    assert len(kinds) == sample_trace.JOBS
    assert trace.natural_rate == pytest.approx(sample_trace.RATE, rel=0.01)
    assert recording.size.mean() == pytest.approx(1, rel=1e-3)
    assert recording.size[kinds == 1].mean() > 4 * recording.size[kinds == 0].mean()
    # Day and night, and bursts: far from Poisson counts, whose index of dispersion is 1.
    number = np.histogram(recording.arrival, 100)[0]
    assert number.var() / number.mean() > 5


@pytest.mark.parametrize("header", ["arrival, size", " Arrival ,SIZE", '"arrival","Size "'])
def test_columns_are_found_whatever_their_capitals_and_spaces(tmp_path: Path, header: str) -> None:
    (tmp_path / "t.csv").write_text(f"{header}\n0, 0.1\n1, 0.1\n")
    recording = Trace(file=str(tmp_path / "t.csv")).recording
    assert recording.size is not None
    assert recording.size.tolist() == [0.1, 0.1]
    assert recording.unused == ()


def test_columns_that_are_not_used_are_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival,sizes,size_fast,user\n0,1,1,x\n1,1,1,y\n")
    assert Trace(file=str(tmp_path / "t.csv")).recording.unused == ("sizes", "user")


@pytest.mark.parametrize("header", ["arrival,size,size", "arrival,SIZE, Size", "Arrival,ARRIVAL,other"])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, header: str) -> None:
    (tmp_path / "t.csv").write_text(f"{header}\n0,1,2\n1,1,2\n")
    with pytest.raises(ValueError, match=r"t.csv has 2 columns '\w+' \(.*\): keep one, or rename the others"):
        _ = Trace(file=str(tmp_path / "t.csv")).recording


def test_a_header_that_is_not_utf8_is_refused_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("arrival,Größe\n0,1\n1,2\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"t.csv: the names of the columns are not UTF-8; save the file as UTF-8"):
        _ = Trace(file=str(tmp_path / "t.csv")).recording


def test_nanoseconds_since_1970_keep_their_gaps(tmp_path: Path) -> None:
    """Near 1.7e18 neighbouring floats are 256 apart."""
    start = 1700158623979960100
    times = [start + 100 * i for i in range(4)]
    (tmp_path / "t.csv").write_text("arrival\n" + "".join(f"{time}\n" for time in times))
    parquet.write_table(pyarrow.table({"arrival": times}), tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert Trace(file=str(tmp_path / name)).recording.arrival.tolist() == [0, 100, 200, 300]


@pytest.mark.parametrize("fraction", ["", ".5", ".9799601", ".979960123"])
def test_dates_are_refused_with_the_first(tmp_path: Path, fraction: str) -> None:
    (tmp_path / "t.csv").write_text(f"arrival\n2023-11-16 18:17:03{fraction}\n2023-11-16 18:17:04{fraction}\n")
    with pytest.raises(ValueError, match=r"'arrival' must hold numbers, but holds dates or times: row 1 is 2023"):
        _ = Trace(file=str(tmp_path / "t.csv")).recording
