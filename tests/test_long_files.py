"""Long tables from files and from Arrow, read in batches by pyarrow or polars."""

from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sksurvgpu import from_long
from sksurvgpu.data import sources

PERSONS = pd.DataFrame({"row_id": np.arange(50) * 3, "time": np.arange(50.0)})
RNG = np.random.default_rng(0)
CODES = pl.DataFrame(
    {
        "row_id": RNG.permutation(np.repeat(np.arange(50) * 3, 8)),
        "covariate_id": RNG.integers(0, 12, 400) * 1_000,
        "more": ["text"] * 400,
        "value": RNG.choice([1.0, 2.0, 0.5], 400),
    }
)
WRITE = {
    ".parquet": pl.DataFrame.write_parquet,
    ".pq": pl.DataFrame.write_parquet,
    ".feather": pl.DataFrame.write_ipc,
    ".arrow": pl.DataFrame.write_ipc,
}


@cache
def expected():
    return from_long(PERSONS, CODES, duplicates="sum")


def check(covariates, persons=PERSONS, **options):
    data = from_long(persons, covariates, duplicates="sum", **options)
    difference = data.X.to_scipy() - expected().X.to_scipy()
    assert abs(difference).max() < 1e-12
    assert data.X.names.tolist() == expected().X.names.tolist()
    assert data.report == expected().report


@pytest.fixture(params=["pyarrow", "polars"])
def reader(request, monkeypatch):
    """The package that reads files: the other one is hidden."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
    monkeypatch.setattr(sources, "find_spec", lambda name: name == request.param or None)
    return request.param


@pytest.mark.thorough(but=r"parquet|arrow")
@pytest.mark.parametrize("suffix", WRITE)
def test_files_folders_and_lists(reader, suffix, tmp_path, monkeypatch):
    whole = tmp_path / f"whole{suffix}"
    WRITE[suffix](CODES, whole)
    check(whole, batch_size=30)
    check(str(whole))
    folder = tmp_path / "parts" / "year=2020"
    folder.mkdir(parents=True)
    for i in range(0, 400, 150):
        WRITE[suffix](CODES[i : i + 150], folder / f"part-{i}{suffix}")
    (folder / "_SUCCESS").touch()
    (folder / f".part-0{suffix}").write_text("of another program")
    (folder / "notes.txt").write_text("not data")
    check(folder.parent, batch_size=70)
    check(sorted(folder.glob(f"part*{suffix}")))
    for home in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(home, str(tmp_path))
    check(f"~/{whole.name}")
    check([f"~/parts/year=2020/{part.name}" for part in sorted(folder.glob(f"part*{suffix}"))])


def test_outcomes_and_names_from_files(reader, tmp_path):
    outcomes, names = tmp_path / "outcomes.parquet", tmp_path / "names.parquet"
    pl.DataFrame(PERSONS.to_dict("list")).write_parquet(outcomes)
    pl.DataFrame({"covariate_id": [1_000, 2_000], "name": ["age", "sex"]}).write_parquet(names)
    check(CODES, outcomes, batch_size=7)
    data = from_long(outcomes, CODES, duplicates="sum", names=names)
    assert data.X.names[:4].tolist() == ["0", "age", "sex", "3000"]
    assert data.outcomes.to_dict("list") == PERSONS.to_dict("list")


def test_polars_is_asked_for_small_batches(tmp_path, monkeypatch):
    sizes, lengths = [], []
    collect = pl.LazyFrame.collect_batches

    def recording(frame, *, chunk_size):
        sizes.append(chunk_size)
        for batch in collect(frame, chunk_size=chunk_size):
            lengths.append((len(batch), batch.columns))
            yield batch

    monkeypatch.setattr(pl.LazyFrame, "collect_batches", recording)
    CODES.write_parquet(tmp_path / "codes.parquet", row_group_size=50)
    check(pl.scan_parquet(tmp_path / "codes.parquet"), batch_size=30)
    assert sizes == [30, 30]  # it is read twice
    assert sum(length for length, _ in lengths) == 800
    assert all(columns == ["row_id", "covariate_id", "value"] for _, columns in lengths)


class RecordingDataset:
    """An Arrow dataset that remembers what it was asked for, and what it gave."""

    def __init__(self, dataset):
        self.schema, self.scanner = dataset.schema, dataset.scanner
        self.dataset, self.asked, self.lengths = dataset, [], []

    def to_batches(self, **options):
        self.asked.append(options)
        for batch in self.dataset.to_batches(**options):
            self.lengths.append(batch.num_rows)
            yield batch


def test_a_dataset_is_asked_for_small_batches(tmp_path):
    pyarrow_dataset = pytest.importorskip("pyarrow.dataset")
    CODES.write_parquet(tmp_path / "codes.parquet", row_group_size=50)
    recording = RecordingDataset(pyarrow_dataset.dataset(tmp_path / "codes.parquet"))
    check(recording, batch_size=30)
    assert len(recording.asked) == 2  # it is read twice
    for options in recording.asked:
        assert options == {
            "columns": ["row_id", "covariate_id", "value"],
            "batch_size": 30,
            "batch_readahead": 1,
            "fragment_readahead": 1,
        }
    assert max(recording.lengths) <= 30
    assert sum(recording.lengths) == 800


@pytest.mark.parametrize("lines_of_a_group", [2_000_000, 500_000])
def test_parquet_is_decoded_in_batches_however_large_its_row_groups(lines_of_a_group, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    numbers = np.random.default_rng(0).integers(0, 2**40, (2, 2_000_000))
    table = pyarrow.table({"row_id": numbers[0], "covariate_id": numbers[1]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=lines_of_a_group)
    pool = pyarrow.proxy_memory_pool(pyarrow.default_memory_pool())
    before = pyarrow.default_memory_pool()
    pyarrow.set_memory_pool(pool)
    try:
        source = sources.open_source(tmp_path / "a.parquet", "covariates")
        batches = [len(batch) for batch in source.batches(source.columns, 20_000)]
    finally:
        pyarrow.set_memory_pool(before)
    assert batches == [20_000] * 100
    assert pool.max_memory() < table.nbytes / 4  # a row group of 500,000 lines is that large


def test_files_may_have_columns_in_another_order_and_of_other_types(reader, tmp_path):
    CODES[:150].write_parquet(tmp_path / "a.parquet")
    other = CODES[150:].select("value", "row_id", "more", "covariate_id")
    other.cast({"row_id": pl.Int32}).write_parquet(tmp_path / "b.parquet")
    if reader == "polars":  # which wants the same types
        other.write_parquet(tmp_path / "b.parquet")
    check(tmp_path, batch_size=70)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_types_of_the_first_file_cut_no_numbers_of_others(suffix, tmp_path):
    pytest.importorskip("pyarrow")
    types = {"flag": pl.Boolean, "code": pl.Int8, "time": pl.Float32}
    first = {"flag": [1, 0], "code": [3, 4], "time": [0.5, 1.5], "count": [7, 8]}
    first = pl.DataFrame(first).cast(types)
    second = pl.DataFrame({"flag": [2], "code": [300], "time": [1e9 + 0.25], "count": [2.5]})
    for name, table in {"a": first, "b": second}.items():
        WRITE[suffix](table, tmp_path / (name + suffix))
    source = sources.open_source(tmp_path, "covariates")
    batches = source.batches(source.columns, 10)
    found = np.concatenate([batch.to_numpy().astype(float) for batch in batches])
    expected = [[1, 3, 0.5, 7], [0, 4, 1.5, 8], [2, 300, 1e9 + 0.25, 2.5]]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("suffix", WRITE)
def test_files_without_lines_are_tables_without_lines(reader, suffix, tmp_path):
    path = tmp_path / f"none{suffix}"
    WRITE[suffix](CODES[:0], path)
    for table in (path, CODES[:0].lazy()):
        none = sources.read_whole(table, "outcomes")
        assert none.shape == (0, 4) and none["row_id"].dtype == np.int64
    with pytest.raises(ValueError, match="`outcomes` has no rows"):
        from_long(path, CODES)


def test_every_form_of_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(CODES.to_dict(as_series=False))
    batches = table.to_batches(max_chunksize=90)
    check(table, batch_size=40)
    check(batches, batch_size=40)
    check(iter(batches))
    check(pyarrow.RecordBatchReader.from_batches(table.schema, batches), batch_size=40)
    check(table, pyarrow.table(PERSONS.to_dict("list")))
    text = table.set_column(0, "row_id", table["row_id"].cast(pyarrow.string()).dictionary_encode())
    check(text, PERSONS.astype({"row_id": str}))
    flags = pyarrow.table(
        {"row_id": [0, 3, None], "covariate_id": [1, 1, 1], "value": [True, False, True]}
    )
    data = from_long(PERSONS, flags, missing="drop")
    assert (data.report.n_missing, data.report.n_zeros, data.report.n_entries) == (1, 1, 1)


def test_files_that_cannot_be_read(reader, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`covariates` names .*nothing.parquet"):
        from_long(PERSONS, tmp_path / "nothing.parquet")
    with pytest.raises(ValueError, match="found no such file"):
        from_long(PERSONS, tmp_path)
    (tmp_path / "codes.csv").write_text("row_id,covariate_id")
    with pytest.raises(ValueError, match=r"Parquet \(.parquet, .pq\) or Feather .* found '.csv'"):
        from_long(PERSONS, tmp_path / "codes.csv")
    CODES.write_parquet(tmp_path / "a.parquet")
    CODES.write_ipc(tmp_path / "b.feather")
    with pytest.raises(ValueError, match=r"of one format, .* found '.feather', '.parquet'"):
        from_long(PERSONS, tmp_path)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 but no more")
    with pytest.raises(ValueError, match="`covariates` has a file that cannot be read: "):
        from_long(PERSONS, broken)


@pytest.mark.parametrize("suffix", WRITE)
def test_files_have_the_same_columns(reader, suffix, tmp_path):
    WRITE[suffix](CODES.drop("value"), tmp_path / f"a{suffix}")
    WRITE[suffix](CODES, tmp_path / f"b{suffix}")
    with pytest.raises(ValueError, match=r"file '.*b\..*' of `covariates` .* has also 'value'"):
        from_long(PERSONS, tmp_path)
    with pytest.raises(ValueError, match=r"file '.*a\..*' of `covariates` .* lacks 'value'"):
        from_long(PERSONS, [tmp_path / f"b{suffix}", tmp_path / f"a{suffix}"])


def test_files_that_break_while_they_are_read(reader, tmp_path):
    file = tmp_path / "codes.parquet"
    CODES.write_parquet(file, compression="uncompressed")
    content = bytearray(file.read_bytes())
    content[4:200] = bytes(196)  # pages of data; the description at the end is whole
    file.write_bytes(content)
    with pytest.raises(ValueError, match="`covariates` has a file that cannot be read: "):
        from_long(PERSONS, file)


def test_without_a_package_that_reads_files(tmp_path, monkeypatch):
    CODES.write_parquet(tmp_path / "codes.parquet")
    monkeypatch.setattr(sources, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"takes pyarrow or polars, .*: pip install pyarrow"):
        from_long(PERSONS, tmp_path / "codes.parquet")


def test_lazy_frames_that_give_no_batches(monkeypatch):
    monkeypatch.delattr(pl.LazyFrame, "collect_batches")
    with pytest.raises(
        TypeError, match=r"a lazy frame .polars.* without collect_batches, .*collect it"
    ):
        from_long(PERSONS, CODES.lazy())


def test_strings_that_point_outside_their_table(tmp_path):
    """Arrow maps a Feather file as it is; such offsets crashed."""
    pyarrow, feather = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.feather")
    offsets, letters = np.array([0, 2**30, 4, 6], dtype=np.int32), b"102030"
    names = pyarrow.StringArray.from_buffers(
        3, pyarrow.py_buffer(offsets), pyarrow.py_buffer(letters)
    )
    damaged = pyarrow.table({"row_id": [0, 3, 6], "covariate_id": names})
    with pytest.raises(ValueError, match=r"`covariates` is a damaged Arrow table: .*offset"):
        from_long(PERSONS, damaged)
    whole, path = (
        damaged.set_column(1, "covariate_id", [["10", "20", "30"]]),
        tmp_path / "a.feather",
    )
    feather.write_feather(whole, path, compression="uncompressed")
    good = np.array([0, 2, 4, 6], dtype=np.int32).tobytes()
    content = path.read_bytes()
    assert content.count(good) == 1
    path.write_bytes(content.replace(good, offsets.tobytes()))
    with pytest.raises(ValueError, match=r"`covariates` .* damaged Arrow table: .*offset"):
        from_long(PERSONS, path)


def test_sizes_that_no_memory_has(tmp_path):
    """Arrow says so with an error that is neither an OSError nor a ValueError."""
    feather = pytest.importorskip("pyarrow.feather")
    path = tmp_path / "a.feather"
    feather.write_feather(CODES.to_arrow(), path, compression="zstd")
    content = path.read_bytes()
    # A compressed buffer begins with its size.
    at = content.index(b"\x28\xb5\x2f\xfd") - 8
    path.write_bytes(content[:at] + (2**60).to_bytes(8, "little") + content[at + 8 :])
    with pytest.raises(ValueError, match=r"`covariates` has a file that cannot be read: .*size"):
        from_long(PERSONS, path)
