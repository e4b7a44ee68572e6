"""Catalogs in a database, for operators: `import`, `reindex`, and the database part of `status`.

A database is given as an address such as `postgres://user@host/database`, or as `embedded:FOLDER` for one that this
program runs in a folder. Put a password in libpq's PGPASSFILE or PGPASSWORD, not on a command line that others can see.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Final

import click
from tools_search_hosts import ConfigurationError
from tools_search_hosts.counts import number_of

from tools_search_server.programs.models import model_options, selected_model

if TYPE_CHECKING:
    from tools_search_ranking.postgres import ToolEntry
    from tools_search_ranking.postgres.schema import Connection
    from tools_search_ranking.semantic import Embedder

    from tools_search_server.catalog.catalog_file import CatalogFile

logger = logging.getLogger(__name__)

DEFAULT_NAME: Final = "default"

_CATALOG_OPTION: Final = "--catalog"
_EMBEDDED: Final = "embedded:"
_SCHEMES: Final = ("postgres://", "postgresql://", _EMBEDDED)
_LINES: Final = (".jsonl", ".ndjson")
_REPORT_SECONDS: Final = 2
_CONNECT_SECONDS: Final = 5


def printable_name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Return the name of a catalog that an option states, which is text that a database can store.

    Raises:
        click.BadParameter: It has characters that are not printable.
    """
    if not value.isprintable():
        raise click.BadParameter(f"{value!r} has characters that are not printable.")
    return value


def is_database(source: str) -> bool:
    """Return whether an option's value is a database rather than a file."""
    return source.startswith(_SCHEMES)


def checked_catalog(source: str, name: str, model: Embedder | None) -> str:
    """Return the address of a database, after checking that it has a catalog of this name to serve.

    An embedded database without any catalog gets the bundled one.

    Raises:
        ConfigurationError: The database cannot be reached, or has no such catalog, or one without vectors of `model`.
    """
    with _connected(_CATALOG_OPTION, source) as (connection, address):
        from tools_search_ranking.postgres import embedder_key, served_generation
        from tools_search_ranking.postgres.schema import read_names, require_version

        from tools_search_server.catalog.catalog_file import bundled_catalog

        if source.startswith(_EMBEDDED) and not _has(connection):
            write_catalog(connection, name, bundled_catalog(), model)
        require_version(read_names(connection))
        if not _has(connection, name):
            problem = f"has no catalog {name!r} that this role may search. Run `tools-search-server import` first."
            raise ConfigurationError(_CATALOG_OPTION, [problem])
        if model is not None and served_generation(connection, name)[1] != embedder_key(model):
            problem = (
                f"has no vectors of {model.name} in the catalog {name!r}. Give `import` or `reindex` this option too."
            )
            raise ConfigurationError(_CATALOG_OPTION, [problem])
    return address


def checked_index(source: str, model: Embedder | None = None) -> str:
    """Return the address of a database for a gateway's index, after creating or migrating its schema.

    With a model, it can also store vectors.

    Raises:
        ConfigurationError: The database cannot be used.
    """
    with _connected("--index", source) as (connection, address):
        from tools_search_ranking.postgres import migrate, require_vectors

        migrate(connection)
        if model is not None:
            require_vectors(connection)
        _tell_what_is_logged(connection)
    return address


@contextmanager
def _connected(option: str, source: str) -> Generator[tuple[Connection, str]]:
    """Connect to a database until the context ends. Yield the connection and the address.

    Raises:
        ConfigurationError: The database cannot be used, or it fails inside the context.
    """
    if not is_database(source):
        problem = f"{source!r} is not a database. Write postgres://HOST/DATABASE or embedded:FOLDER."
        raise ConfigurationError(option, [problem])
    from tools_search_ranking.extras import MissingExtraError, install_command

    try:
        import psycopg
        from tools_search_ranking.postgres import ImportingError, SchemaError
        from tools_search_ranking.postgres.embedded import embedded_address
        from tools_search_ranking.postgres.schema import OPTIONS
    except ImportError:
        raise ConfigurationError(option, [f"needs psycopg. {install_command('postgres')}"]) from None
    try:
        address = source
        if source.startswith(_EMBEDDED):
            address = embedded_address(Path(source.removeprefix(_EMBEDDED)))
        with psycopg.connect(address, **OPTIONS, autocommit=True, connect_timeout=_CONNECT_SECONDS) as connection:
            yield connection, address
    except (MissingExtraError, SchemaError, OSError) as error:
        raise ConfigurationError(option, [f"{error}"]) from None
    except ImportingError as error:
        raise ConfigurationError("FILE", [str(error)]) from None
    except psycopg.Error as error:
        reason = error.diag.message_primary or str(error).strip().splitlines()[0]
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            reason += ". Use the owner of the schema tools_search, or of the database if there is no such schema."
        raise ConfigurationError(option, [f"the database reports: {reason}"]) from None


def _has(connection: Connection, name: str | None = None) -> bool:
    """Return whether there is a catalog of this name, or any catalog if `name` is `None`."""
    found = connection.execute("select to_regclass('tools_search.catalog')").fetchone()
    if found is None or found[0] is None:
        return False
    rows = connection.execute(
        "select from tools_search.catalog where name = coalesce(%s, name) and generation is not null limit 1", [name]
    ).fetchall()
    return bool(rows)


def import_file(source: str, name: str, file: Path, model: Embedder | None) -> str:
    """Import a catalog file into a database, with vectors of `model`, and return the database's address.

    Raises:
        ConfigurationError: The file or the database cannot be used.
    """
    from tools_search_server.catalog.catalog_file import read_catalog

    contents = read_catalog(file)
    with _connected(_CATALOG_OPTION, source) as (connection, address):
        write_catalog(connection, name, contents, model)
    return address


_IMPORT_EXAMPLES: Final = """\b
Examples:
  tools-search-server import tools.json --to embedded:db
  tools-search-server import - --to postgres://host/db --reader web"""

_REINDEX_EXAMPLES: Final = """\b
Examples:
  tools-search-server reindex --database postgres://host/db"""


_LOGGED: Final = """
    select quote_ident(current_database()) where current_setting('log_parameter_max_length') <> '0' and not exists (
        select from pg_db_role_setting join pg_database on pg_database.oid = setdatabase
        where datname = current_database() and 'log_parameter_max_length=0' = any (setconfig)
    )
"""


def _tell_what_is_logged(connection: Connection) -> None:
    for (database,) in connection.execute(_LOGGED).fetchall():
        advice = f"have a superuser run `alter database {database} set log_parameter_max_length = 0`"
        logger.warning("PostgreSQL may write queries to its log: %s", advice)


_name_option = click.option("--name", callback=printable_name, metavar="NAME", default=DEFAULT_NAME, show_default=True,
                            help="Name of the catalog.")  # fmt: skip


@click.command("import", short_help="Import the tools in a file into a database.", epilog=_IMPORT_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--to", "database", metavar="DATABASE", required=True, help="postgres://… or embedded:FOLDER.")
@_name_option
@click.option("--reader", "readers", metavar="ROLE", multiple=True,
              help="Let this role search the catalog, and do nothing else.")  # fmt: skip
@model_options
def import_(
    *, file: Path, database: str, name: str, readers: tuple[str, ...], semantic: bool, multilingual: bool
) -> None:
    """Replace the tools of a catalog in a database with those in FILE.

    FILE is a catalog file, or has one definition per line (`.jsonl`, or - for standard input). Searches find the old
    tools until all new ones are written. The command first creates or migrates the schema.

    With a model, it then makes vectors of tools that are new or changed. This needs the extension pgvector.
    """
    from tools_search_server.catalog.catalog_file import read_catalog

    model = selected_model(semantic=semantic, multilingual=multilingual)
    with _connected("--to", database) as (connection, _):
        for role in readers:  # before anything is written
            if not connection.execute("select from pg_roles where rolname = %s", [role]).fetchall():
                advice = f'create it first (`create role "{role}" login`)'
                raise ConfigurationError("--reader", [f"there is no role {role!r} in this database: {advice}"])
        if file.suffix in _LINES or str(file) == "-":
            with click.open_file(str(file), encoding="utf-8-sig") as lines:
                written = _write(connection, name, _entries_of(lines), model)
        else:
            written = write_catalog(connection, name, _storable(read_catalog(file)), model)
        for role in readers:
            connection.execute("select tools_search.allow(%s::name, %s)", [role, name])
        click.echo(f"The catalog {name!r} has {number_of(written, 'tool')}")
        _tell_what_is_logged(connection)


@click.command("reindex", short_help="Rebuild the index of a catalog in a database.", epilog=_REINDEX_EXAMPLES)
@click.option("--database", metavar="DATABASE", required=True, help="postgres://… or embedded:FOLDER.")
@_name_option
@model_options
def reindex(*, database: str, name: str, semantic: bool, multilingual: bool) -> None:
    """Rebuild a catalog's index with this version of the program. Searches continue meanwhile.

    This takes as long as importing the tools, and needs twice the space until it is done. With a model, it also makes
    the vectors that tools lack.
    """
    model = selected_model(semantic=semantic, multilingual=multilingual)
    with _connected("--database", database) as (connection, address):
        import psycopg
        from tools_search_ranking.postgres import migrate, reindex_catalog
        from tools_search_ranking.postgres.schema import OPTIONS

        migrate(connection)
        # The tools are read while they are written, which takes two connections.
        with psycopg.connect(address, **OPTIONS, autocommit=True) as reading:
            try:
                written = reindex_catalog(connection, reading, name, on_progress=_reporter())
            except LookupError:
                problem = f"there is no catalog {name!r} in this database. `status --database` shows those that it has."
                raise ConfigurationError("--name", [problem]) from None
        _embed(connection, name, model)
        click.echo(f"The catalog {name!r} is indexed again: {number_of(written, 'tool')}")


def show_catalogs(database: str, *, as_json: bool) -> bool:
    """Print the catalogs in a database. Return whether the schema and all catalogs are of this program's version."""
    with _connected("--database", database) as (connection, _):
        from tools_search_ranking.postgres.analysis import ANALYSIS
        from tools_search_ranking.postgres.schema import problem_of, read_names, require_version

        migrations = read_names(connection)
        problem = problem_of(migrations)
        if not migrations:
            require_version(migrations)
        rows = connection.execute(
            "select name, revision, made, analysis, (select coalesce(sum(tools), 0)::int "
            "from tools_search.audience where audience.generation = generation.id), embedder, generation.id "
            "from tools_search.catalog join tools_search.generation on generation.id = catalog.generation order by name"
        ).fetchall()
        embedded = {
            generation: _number_of_vectors(connection, generation)
            for *_, embedder, generation in rows
            if embedder is not None
        }
        _tell_what_is_logged(connection)
        (size,) = connection.execute("select pg_database_size(current_database())").fetchone() or (0,)
    catalogs: list[dict[str, Any]] = [
        {
            "name": own,
            "tools": tools,
            "revision": revision,
            "made": made.isoformat(),
            "current": analysis == ANALYSIS,
            "embedder": embedder,
            "embedded": embedded.get(generation, 0),
        }
        for own, revision, made, analysis, tools, embedder, generation in rows
    ]
    is_current = problem is None and all(catalog["current"] for catalog in catalogs)
    if as_json:
        document = {"ok": is_current, "schema": len(migrations), "bytes": size, "catalogs": catalogs}
        click.echo(json.dumps(document, indent=2))
        return is_current
    click.echo(f"schema {len(migrations)}, {size / 1e6:,.0f} MB")
    if problem is not None:
        click.echo(problem)
    for catalog in catalogs:
        vectors = f", {catalog['embedded']:,} with vectors of {catalog['embedder']}" if catalog["embedder"] else ""
        advice = "" if catalog["current"] else ", made by another version: reindex"
        click.echo(
            f"{catalog['name']}: {number_of(catalog['tools'], 'tool')} since {catalog['made'][:19]}{vectors}{advice}"
        )
    return is_current


def _number_of_vectors(connection: Connection, generation: int) -> int:
    row = connection.execute("select count(*) from tools_search.vector where generation = %s", [generation]).fetchone()
    return 0 if row is None else row[0]


def write_catalog(connection: Connection, name: str, contents: CatalogFile, model: Embedder | None) -> int:
    """Create or migrate the schema, import the contents of a catalog file, and return the number of tools."""
    from tools_search_server.catalog.database import catalog_entries, catalog_facts

    return _write(connection, name, catalog_entries(contents), model, catalog_facts(contents))


def _write(
    connection: Connection,
    name: str,
    entries: Iterable[ToolEntry],
    model: Embedder | None,
    facts: Mapping[str, Any] | None = None,
) -> int:
    from tools_search_ranking.postgres import import_catalog, migrate, require_vectors

    migrate(connection)
    if model is not None:
        require_vectors(connection)  # before anything is written
    written = import_catalog(connection, name, entries, facts=facts, on_progress=_reporter())
    _embed(connection, name, model)
    return written


def _embed(connection: Connection, name: str, model: Embedder | None) -> None:
    """Make the vectors that the tools of a catalog lack.

    Raises:
        ConfigurationError: The model failed, or another program embeds the tools with another one.
    """
    if model is None:
        return
    from tools_search_ranking.postgres import embed_catalog
    from tools_search_ranking.semantic import EmbedderError

    try:
        embed_catalog(connection, name, model, on_progress=_reporter("embedded"))
    except (EmbedderError, LookupError) as error:
        raise ConfigurationError(model.name, [f"{error}. The catalog is ranked by words alone."]) from None


def _storable(contents: CatalogFile) -> CatalogFile:
    """Return `contents`.

    Raises:
        ConfigurationError: They have more than tools, which would be lost.
    """
    others = ("resources", "resource_templates", "prompts", "contents", "unreadable")
    if lost := [other for other in others if getattr(contents, other)]:
        own = ", ".join(lost)
        problem = f"has {own}, which a database does not store. Remove them, or serve the file itself with `--catalog`."
        raise ConfigurationError("FILE", [problem])
    return contents


def _entries_of(lines: IO[str]) -> Iterator[ToolEntry]:
    """Yield the tools in lines of JSON.

    Raises:
        ConfigurationError: A line is not a tool definition.
    """
    from mcp_types import Tool

    from tools_search_server.catalog.catalog_file import CatalogFile, parsed
    from tools_search_server.catalog.database import catalog_entries

    try:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    contents = CatalogFile(tools=[Tool.model_validate(parsed(line), by_name=False)])
                except (ValueError, RecursionError):
                    raise ConfigurationError("FILE", [f"line {number} is not the definition of an MCP tool"]) from None
                yield from catalog_entries(contents)
    except UnicodeDecodeError:
        raise ConfigurationError("FILE", ["is not UTF-8 text. Save it as UTF-8."]) from None


def _reporter(done: str = "written") -> Callable[[int], None]:
    """Return a function that prints the number of tools that are done to standard error every few seconds."""
    began = reported = monotonic()

    def report(written: int) -> None:
        nonlocal reported
        now = monotonic()
        if now - reported >= _REPORT_SECONDS:
            reported = now
            click.echo(f"{number_of(written, 'tool')} {done}, {written / (now - began):,.0f} a second", err=True)

    return report
