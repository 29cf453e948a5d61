"""A database in the OMOP common data model: what a study asks it for."""

from __future__ import annotations

from .._tables import counted
from .cohorts import compare, draw
from .covariates import extract
from .records import find_events, join_eras, prepare
from .tables import DOMAINS, open_tables
from .vocabulary import find_concepts, find_names


class Database:
    """Tables of the OMOP common data model, version 5.4 or 5.3.

    DuckDB reads and joins the tables in bounded memory. Results are tables for `from_long`,
    `cohort.time_at_risk` and `cohort.eras_to_intervals`. Concepts are standard ones and include
    their descendants. Results are sorted, and the same for any number of threads.

    Parameters
    ----------
    source : path, mapping or connection of DuckDB
        A file of DuckDB, which is opened to be read only; a folder with a Parquet file, or a folder
        of such, for each table, such as ``person.parquet``; a mapping from the names of tables to
        frames, Arrow tables or readers, or paths of Parquet; or a connection, in which temporary
        tables are made.
    schema : str, optional
        Schema of the tables in DuckDB, also as ``"database.schema"``.

    Attributes
    ----------
    n_persons : int
        Number of persons.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_omop
    >>> from sksurvgpu.omop import Database
    >>> simulated = simulate_omop(500, random_state=0)
    >>> database = Database(simulated.tables)
    >>> database
    <Database of 500 persons: condition, drug, procedure, measurement, observation>
    >>> new, old = (database.cohort({"drug": [drug]}) for drug in simulated.drugs)
    >>> cohort = database.compare(new, old)
    >>> data = database.covariates(cohort, exclude=simulated.drugs, min_count=10)
    >>> data.X.shape[0] == len(cohort.table)
    True
    """

    def __init__(self, source, schema=None):
        self._tables = open_tables(source, schema)
        self.n_persons = prepare(self._tables)

    def __repr__(self) -> str:
        there = [name for name, domain in DOMAINS.items() if self._tables.has(domain.table)]
        return f"<Database of {counted(self.n_persons, 'persons')}: {', '.join(there)}>"

    def digest(self) -> str:
        """Tell whether two databases are the same in all that is read of them.

        Returns
        -------
        digest : str
            The same whatever the order of lines is. All tables are read once.
        """
        return self._tables.digest()

    def concepts(self, ids, descendants=True, exclude=()):
        """Find concepts with all that are below them.

        Parameters
        ----------
        ids : int or sequence of int
            Identifiers of concepts.
        descendants : bool, default=True
            Add their descendants, which ``concept_ancestor`` has.
        exclude : sequence of int, default=()
            Concepts to be left out, with their descendants if these are added.

        Returns
        -------
        ids : ndarray of int64
            Sorted identifiers. A warning says which of those given the vocabulary does not have.
        """
        return find_concepts(self._tables, ids, descendants, exclude)

    def names(self, ids):
        """Look up the names of concepts.

        Parameters
        ----------
        ids : int or sequence of int
            Identifiers of concepts.

        Returns
        -------
        names : pandas.Series
            Names by identifier in the order given. A warning says which of them the vocabulary does
            not have; their names are missing.
        """
        return find_names(self._tables, ids)

    def cohort(
        self,
        concepts,
        *,
        first_only=True,
        washout=365,
        min_days=1,
        period=(None, None),
        gap=30,
        descendants=True,
    ):
        """Draw persons by what they begin to take, or by what happens to them.

        Records of the concepts are joined into eras, of which each is an entry: one that starts at
        most `gap` days after the last day of those before continues their era. An exposure without
        an end has that of its days of supply, else its first day.

        Parameters
        ----------
        concepts : dict of {str: sequence of int}
            Concepts by domain: "condition", "drug", "procedure", "measurement", "observation",
            "visit", or "cohort" for the numbers of cohorts that the database has.
        first_only : bool, default=True
            Take the first era of a person, also where it lies outside of observation, and no other.
        washout : int, default=365
            Days for which a person must have been observed before the index date.
        min_days : int, default=1
            Days that an era must have.
        period : (date, date), default=(None, None)
            First and last index date, None where that does not matter.
        gap : int, default=30
            Days that an era goes on for after a record.
        descendants : bool, default=True
            Take descendants of the concepts, too.

        Returns
        -------
        drawn : DrawnCohort
            Entries with their dates, and an account of what was left out.
        """
        options = {"first_only": first_only, "washout": washout, "min_days": min_days}
        return draw(self._tables, concepts, descendants, gap, period, **options)

    def compare(self, target, comparator, *, common_period=False, duplicates="keep first"):
        """Put two cohorts beside each other.

        Parameters
        ----------
        target, comparator : DrawnCohort
            The treated, and whom they are compared with.
        common_period : bool, default=False
            Take only index dates between the first and the last one that both cohorts have.
        duplicates : {"keep first", "remove"}, default="keep first"
            What becomes of persons in both cohorts: they stay where they enter first, or leave.
            Who enters both on one day leaves in any case.

        Returns
        -------
        cohort : cohort.Cohort
            A line for each person, with the column ``treatment``; its attrition begins with the
            steps of both cohorts.
        """
        return compare(target, comparator, common_period, duplicates)

    def events(self, concepts, persons=None, *, descendants=True):
        """Find days of events.

        Records of a person on one day are one event. Those without a date or outside of observation
        are left out, with a warning that counts them.

        Parameters
        ----------
        concepts : dict of {str: sequence of int}
            As `cohort` takes them.
        persons : DrawnCohort, Cohort, table or sequence of int, optional
            Take the events of these persons; a table has a column ``id``.
        descendants : bool, default=True
            Take descendants of the concepts, too.

        Returns
        -------
        events : pandas.DataFrame
            A line for each event, sorted: ``id`` of the person, and ``date``.
        """
        return find_events(self._tables, concepts, persons, descendants)

    def covariates(
        self,
        persons,
        *,
        windows=None,
        exclude=(),
        domains=None,
        score=None,
        min_count=1,
        to=None,
        verbose=0,
        **writing,
    ):
        """Make columns of what the database knows of persons before a date.

        They are age in groups of five years, sex, race, ethnicity, year and month of the index
        date; a column of zeros and ones for each concept and window in which a person has a record
        of it; the number of records of each domain in each window; and a score if there is one.
        Concepts are as recorded, without their ancestors; concept 0 stands for none.

        Parameters
        ----------
        persons : Cohort, DrawnCohort or table
            Persons with the columns ``id``, each once, and ``index_date``.
        windows : dict or list, optional
            Windows of days against the index date, by name, as `from_long` takes them; by default
            ``{"the last 30 days": (-30, 0), "the last year": (-365, 0)}``. A record is where it
            starts.
        exclude : sequence of int, default=()
            Concepts that make no columns, with their descendants: exposures that are compared.
        domains : sequence of str, optional
            Which of "condition", "drug", "procedure", "measurement", "observation"; by default all
            that the database has tables of.
        score : dict of {str: (float, sequence of int)}, optional
            Comorbidities: the points of each, and its concepts, which stand for their descendants.
            Conditions on the index date or any day before add their points to one column.
        min_count : int, default=1
            Leave out columns that are not zero in fewer persons.
        to : path-like, optional
            Write the rows to files in this folder, as `from_long` does.
        verbose : int, default=0
            1 shows one line about the lines that were read.
        **writing
            Arguments of `from_long` about files.

        Returns
        -------
        data : LongData
            X with names, rows in the order of `persons` unless written to files. Identifiers of
            columns are those of concepts times 1,000 and a number of their kind. The report counts
            records without a date (``n_undated``) or concept (among ``n_missing``).

        Notes
        -----
        Each table is read once; beside the result, a batch of its lines is held. As in
        FeatureExtraction, whose identifiers of demographic columns are the same, age is the
        difference of years, and records count whether or not they lie in observation.
        """
        kinds = {"windows": windows, "exclude": exclude, "domains": domains, "score": score}
        reading = {"min_count": min_count, "to": to, "verbose": verbose, **writing}
        return extract(self._tables, persons, reading, **kinds)

    def eras(self, exposures, events, *, gap=30, descendants=True):
        """Make the tables of a case series.

        A period of observation is a subject with a number of its own, as in
        SelfControlledCaseSeries; those without an event are left out.

        Parameters
        ----------
        exposures : sequence of int, or mapping from name to sequence of int or dict
            Drugs, of which each is an exposure by the name of its concept, or names of exposures
            with their drugs, or with concepts by domain.
        events : dict of {str: sequence of int}, or pandas.DataFrame
            Concepts by domain, as the method `events` takes them, or what it returned.
        gap : int, default=30
            Days that an era goes on for after a record, as for `cohort`.
        descendants : bool, default=True
            Take descendants of the concepts, too.

        Returns
        -------
        tables : dict
            ``periods`` (id, person_id, start, end, birth, ended_early: before the last day of the
            database), ``eras`` (id, era, start, end) and ``outcomes`` (id, day), and the name of
            the column of ``birth``, so that ``eras_to_intervals(**tables, windows=...)`` takes
            them.
        """
        return join_eras(self._tables, exposures, events, gap, descendants)
