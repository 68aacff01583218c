"""A labelling project: a folder beside the data with its items in an order that never changes, features, and the log.

Opening one is quick. `Project.prepare` makes the features, which may take long, and adds what is new in the
source. A kill at any moment leaves what was there, and the same call goes on.
"""

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from understudy.data.embedding import Interrupted
from understudy.data.encoders import Encoder, make_encoder
from understudy.data.encoders.choice import FeaturesNote, choose_encoder, describe_features
from understudy.data.extra_columns import has_columns
from understudy.data.faults import Fault
from understudy.data.features import errors_in_one_line
from understudy.data.items import ArrayImages, Kind, Stamp
from understudy.data.pinned_images import PinnedSourceImages
from understudy.data.pool import Pool
from understudy.errors import UnderstudyError, UsageError
from understudy.messages import count_of
from understudy.projects import item_faults, item_table
from understudy.projects.folder_plan import FolderPlan, plan_folders
from understudy.projects.folder_question import FolderQuestion, folder_question
from understudy.projects.item_features import EmbeddedItems, compute_features, encoder_for, recompute_features
from understudy.projects.project_file import FILE as INFO_FILE
from understudy.projects.project_file import ProjectInfo
from understudy.projects.settings import Settings
from understudy.projects.shown_columns import ShownColumns, why_no_columns
from understudy.projects.source_data import SourceData

OWN_FEATURES: Final = "given"  # stands for an encoder where the source brings features
DRAFT: Final = "embedding"  # the folder in `work` where features are made
VERSION_DIGITS: Final = 12  # of an encoder's identity, by which features are known

ReportProgress = Callable[[int, int], None]  # how many items are done, of how many


class Project:
    """A project's folder and all that is in it but the log.

    `notes` are lines for people: what was decided, left out or found changed. `new_classes` are names that were given
    or found and that the project does not begin with. `added` counts the items that this opening added at the end.
    """

    def __init__(
        self,
        folder: Path,
        info: ProjectInfo,
        source: SourceData | None,
        store_url: str,
        *,
        new_classes: Sequence[str] = (),
        notes: Sequence[str] = (),
        device: str = "auto",
        encoder: Encoder | None = None,
        folder_choice: bool | None = None,
        is_draft: bool = False,
    ) -> None:
        self.folder = folder.absolute()
        self.folder_choice = folder_choice  # asked for, and not yet in effect
        self.info, self.source, self.store_url = info, source, store_url
        self.new_classes, self.notes = tuple(new_classes), list(notes)
        self.device = device
        self.added = 0
        self.held_up = ""  # why preparing does not go on at the moment, in a line; for whoever shows the progress
        self._encoder = encoder
        self._is_draft = is_draft  # made by this call, and nothing has begun
        self._read_table()
        self._pool: Pool | None = None
        self._columns: ShownColumns | None = None
        self._questions: dict[tuple[str, ...] | None, FolderQuestion | None] = {}  # by the classes given

    def _read_table(self) -> None:
        self._stamp = item_table.stamp_of_table(self.folder)
        self._table = item_table.read_item_table(self.folder)
        self._left_out = item_faults.read_left_out(self.folder)
        self._waiting = self._find_new_rows()

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def identity(self) -> str:
        """A random name from when the project was made, by which its log is known wherever the folder goes."""
        return self.info.identity

    @property
    def kind(self) -> Kind:
        return self.info.kind

    @property
    def settings(self) -> Settings:
        return self.info.settings

    @property
    def classes_at_start(self) -> tuple[str, ...]:
        return self.info.settings.classes

    @property
    def encoder(self) -> str | None:
        """The encoder's name, "given" where the source brought features, or None before one is chosen."""
        return OWN_FEATURES if self.info.own_features else self.info.encoder

    @property
    def features_note(self) -> FeaturesNote:
        """What the features are, whether they are weak, and how better ones are had."""
        if self.info.own_features:
            return FeaturesNote(OWN_FEATURES, "those that came with the data")
        if self.info.encoder is None:
            return FeaturesNote("", "no features yet")
        # Everybody who labels sees it, so it does not say where on the server the project is.
        return describe_features(self.kind, self.info.encoder, shlex.quote(self.folder.name))

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def is_ready(self) -> bool:
        """Whether all items that can be used are in the pool, with their features."""
        return self._table is not None and not self._waiting

    @property
    def is_begun(self) -> bool:
        """Whether it has items with features, and labels may be there too."""
        return self._table is not None

    @property
    def total(self) -> int:
        """How many items there will be, as far as is known."""
        return (0 if self._table is None else len(self._table)) + len(self._waiting)

    @property
    def pool(self) -> Pool:
        """The items in the order that never changes, with their features."""
        if self._pool is None:
            table = self._require_table()
            features = item_table.open_features(self.folder, len(table), self.info.features_version)
            base, now = (None, None) if self.source is None else (self.source.base, self.source.pool)
            self._pool = item_table.make_pool(table, features, self.classes_at_start, base, now)
        return self._pool

    @property
    def features(self) -> np.ndarray:
        """(n, d), memory-mapped."""
        features = self.pool.features
        assert features is not None
        return features

    @property
    def digests(self) -> list[str | None]:
        """What the content of each item is known by; None where only its features came."""
        return list(self._require_table()["digest"].to_pylist())

    @property
    def features_path(self) -> Path:
        """The file of exactly these features, for another process."""
        return item_table.features_path(self.folder, len(self._require_table()), self.info.features_version)

    @property
    def columns(self) -> ShownColumns:
        """The other columns of the table that the items came from."""
        if self._columns is None:
            table = self._require_table()
            file = None if self.source is None else self.source.file
            self._columns = ShownColumns(
                self.folder,
                len(table),
                file if file is not None and has_columns(file) else None,
                self.info.origin.columns,
                self._identities_now,
                why_no_columns(self.info.origin, self.folder),
            )
        return self._columns

    def columns_of(self, item: int) -> list[tuple[str, str]]:
        """What is shown beside an item: names and values of the columns that the settings name."""
        return self.columns.of(item, self.settings.show) if self.settings.show else []

    def _identities_now(self) -> list[str | None]:
        """What each item is called in the source now; None where it is not there."""
        found: list[str | None] = [None] * len(self._require_table())
        if self.source is not None:
            for row, place in item_table.match_items(self._table, self.source.pool)[0].items():
                found[row] = self.source.pool.ids[place]
        return found

    @property
    def seed_labels(self) -> dict[int, str]:
        """The labels that items came with, by row, of the classes that the project begins with."""
        known = set(self.classes_at_start)
        return {row: name for row, name in self.source_labels.items() if name in known}

    @property
    def source_labels(self) -> dict[int, str]:
        """All labels that items came with, by row, whether or not their classes are the project's."""
        labels = self._require_table()["label"].to_pylist()
        return {row: name.strip() for row, name in enumerate(labels) if name is not None}

    @property
    def folders(self) -> FolderQuestion | None:
        """What there is to decide about the folders of the source, decided or not; None where there is nothing."""
        if self.source is None:
            return None
        given = None if self.info.classes_from == "source" else self.classes_at_start or None
        if given not in self._questions:
            self._questions[given] = folder_question(self.source, given)
        return self._questions[given]

    def plan_folders(self, labels: bool) -> FolderPlan:
        """What the project would begin with if the source's labels were taken over, or none of them."""
        return plan_folders(self.source, self.info, self._require_table(), labels)

    def follow_plan(self, plan: FolderPlan) -> None:
        """Write down what was planned, now that the log has it. For a project in which nobody decided anything yet."""
        self._table = item_table.replace_labels(self.folder, self._require_table(), plan.labels)
        self._stamp = item_table.stamp_of_table(self.folder)
        self._pool, self.folder_choice = None, None
        self.info = replace(
            self.info,
            settings=plan.settings,
            import_labels=plan.import_labels,
            classes_from="source" if plan.from_source else "given",
        )
        self.settle_folders()

    def settle_folders(self) -> None:
        """Note that it is decided whether folders are classes."""
        self.info = replace(self.info, folders_decided=True)
        self.info.write(self.folder)

    def adopt_settings(self, settings: Settings) -> None:
        """Write down settings that the log has: what is asked for when the project is opened is compared with them."""
        if settings != self.info.settings:
            self.info = replace(self.info, settings=settings)
            self.info.write(self.folder)

    def prepare(self, report_progress: ReportProgress | None = None, quiet: bool = True) -> None:
        """Make the features that are missing. One process at a time: hold the project's lock.

        `report_progress` gets how many items are done, of how many; what it raises ends the call, and what was
        computed is kept. Unless `quiet`, a progress bar is drawn on the terminal too. Where only new items fail, the
        project stays as it was, and a note says why.
        """
        with errors_in_one_line():
            if self.is_behind:
                self._read_table()
                self._pool = self._columns = None
            if self._table is None:
                self._embed_waiting(report_progress, quiet)
            else:
                self._grow(report_progress, quiet)
            item_table.remove_other_features(self.folder, self.features_path)
            for path in (self.artifacts, self.work):
                path.mkdir(exist_ok=True)

    # -- while it is served -------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether another process has added items since these were read."""
        return self._stamp != item_table.stamp_of_table(self.folder)

    def new_items(self) -> dict[str, Stamp | None]:
        """The items of the source that are not in the pool and may be usable, by name, with their stamps."""
        if self.source is None:
            return {}
        return {self.source.pool.ids[row]: self.source.stamp(row) for row in self._waiting}

    @property
    def unusable(self) -> dict[str, Stamp | None]:
        """The items that could not be used, by name, with their stamps of then."""
        return item_faults.stamps_of_unusable(self._left_out)

    def describe_changes(self) -> tuple[int, list[str]]:
        """How many items are not in the source any more; and notes on these, and on what cannot be used there."""
        if self.source is None:
            return 0, []
        table = self._require_table()
        known = item_table.match_items(table, self.source.pool)[0]
        gone = len(table) - len(known)
        # Files are not asked one by one: who serves a project looks often.
        changed = item_faults.changed_texts(self.pool, table, self.source.pool, known) if self.kind == "text" else []
        notes = item_faults.describe_changes(changed, gone, self.info.origin.title)
        return gone, [*notes, *item_faults.describe_unusable(self._left_out, self.source.pool)]

    def embed_new(self, wanted: Mapping[str, Stamp | None], report_progress: ReportProgress | None = None) -> None:
        """Add these items at the end, if they are what they were: of each the stamp is given, where it has one.

        For a process beside the one that serves the project. That one takes them over with `adopt`.
        """
        new = zip(self._waiting, self.new_items().items(), strict=True)
        self._waiting = [row for row, (name, stamp) in new if name in wanted and wanted[name] == stamp]
        if self._waiting:
            with errors_in_one_line():
                self._embed_waiting(report_progress, quiet=True)

    @property
    def reads_source(self) -> bool:
        """Whether its images are read from the source as that was when it was opened, or could not be opened at all."""
        return self.source is None or isinstance(self.pool.items, PinnedSourceImages | ArrayImages)

    def adopt(self, now: "Project") -> None:
        """Have the items that the same project has by now, in one step for whoever reads this one meanwhile."""
        self._pool, self._columns = now.pool, now.columns
        self._table, self._stamp, self.source = now._table, now._stamp, now.source
        self._left_out, self._waiting, self._questions = now._left_out, now._waiting, {}
        self.new_classes = now.new_classes

    def _require_table(self) -> Any:
        if self._table is None:
            raise UnderstudyError(f"{self.folder} has no features yet; prepare() makes them")
        return self._table

    def _find_new_rows(self) -> list[int]:
        """Rows of the source to embed: those that are new, less those that could not be used and have not changed."""
        if self.source is None:
            return []
        pool = self.source.pool
        new = list(range(len(pool))) if self._table is None else item_table.match_items(self._table, pool)[1]
        tried = item_faults.stamps_of_unusable(self._left_out)
        return [row for row in new if pool.ids[row] not in tried or tried[pool.ids[row]] != self.source.stamp(row)]

    def _grow(self, report_progress: ReportProgress | None, quiet: bool) -> None:
        """Note what changed in the source, and add what is new there."""
        table = self._require_table()
        if self.source is not None:
            known = item_table.match_items(table, self.source.pool)[0]
            changed = item_faults.changed_files(self.pool, table)
            changed += item_faults.changed_texts(self.pool, table, self.source.pool, known)
            self.notes += item_faults.describe_changes(changed, len(table) - len(known), str(self.info.origin))
        if not self._waiting:
            return
        wanted = count_of(self._waiting, "new item")
        try:
            self._embed_waiting(report_progress, quiet)
        except Interrupted:
            raise
        except UnderstudyError as error:
            self._waiting = []
            self.notes.append(f"{wanted} could not be added: {' '.join(str(error).split())}")

    def _embed_waiting(self, report_progress: ReportProgress | None, quiet: bool) -> None:
        """Embed the rows that wait, and add them at the end of the pool."""
        if self.source is None:
            raise UnderstudyError(
                f"{self.info.origin} is not there and {self.folder} not finished; put it back or delete the project"
            )
        before = 0 if self._table is None else len(self._table)
        pool = self.source.pool if before == 0 else self.source.pool.take(self._waiting)
        draft = self.work / DRAFT
        if self.info.own_features:
            new = self._take_features(self.source, pool, report_progress)
        else:
            self.work.mkdir(exist_ok=True)
            encoder = self._require_encoder()
            new = compute_features(
                pool,
                encoder,
                draft,
                source=self.name,
                draws_bar=not quiet,
                on_progress=partial(self._pass_on_progress, report_progress, ""),
                on_wait=partial(self._pass_on_progress, report_progress, encoder.name, 0, len(pool)),
            )
        taken = [] if self._table is None else self._table["id"].to_pylist()
        names = item_table.number_taken_names(new.pool.ids, taken)
        rows = item_table.make_rows(new.pool, self.source.base, names, new.marks, self.info.import_labels)
        # Before the table, so that whenever it is there, what was left out of it is known.
        known_faults = {item.fault for item in self._left_out}
        tried = set(pool.ids)
        kept = [item for item in self._left_out if item.fault.used or item.fault.item not in tried]
        self._left_out = item_faults.add_faults(kept, new.faults, self.source)
        item_faults.write_left_out(self.folder, self._left_out)
        self._table = item_table.append_items(self.folder, self._table, rows, new.features, self.info.features_version)
        self._stamp = item_table.stamp_of_table(self.folder)
        self._columns = None
        self._pool, self._waiting, self.added = None, [], (len(self._table) - before if before else 0)
        self._note_left_out([fault for fault in new.faults if fault not in known_faults])
        with suppress(OSError):
            shutil.rmtree(draft)

    def _take_features(self, source: SourceData, pool: Pool, report_progress: ReportProgress | None) -> EmbeddedItems:
        """The features that the source brings."""
        assert pool.features is not None
        if source.made_by != self.info.made_by:
            raise UnderstudyError(f"{self.info.origin} was embedded anew, by another encoder; begin another project")
        if report_progress is not None:
            report_progress(len(pool), len(pool))
        return EmbeddedItems(pool, pool.features, item_table.content_marks(pool), list(source.pool.faults))

    def _pass_on_progress(self, report_progress: ReportProgress | None, awaited: str, done: int, total: int) -> None:
        """Report the progress; `awaited` is the encoder that another process uses, if this one has to wait for it."""
        self.held_up = (
            f"another process is computing features of {awaited}; when it is done, this goes on" if awaited else ""
        )
        note = f"this waited for another process, which computed features of {awaited}"
        if awaited and note not in self.notes:
            self.notes.append(note)
        if report_progress is not None:
            report_progress(done, total)

    def _note_left_out(self, faults: Sequence[Fault]) -> None:
        unused = [fault for fault in faults if not fault.used]
        if unused:
            path = self.folder / item_faults.FILE
            self.notes.append(f"{count_of(unused, 'item')} left out, all listed in {path}; the first: {unused[0]}")

    def change_encoder(self, name: str | None, quiet: bool = True) -> str:
        """Make the features of all items anew by another encoder, and use them from now on; a line that says so.

        Without a name it is the best that can be had. Hold the project's lock. The features of before stay in use until
        the new ones are complete: a kill leaves either, and the same call goes on. Items that cannot be read any more
        get the mean of the others' features; more than a tenth of them is an error.
        """
        with errors_in_one_line():
            table = self._require_table()
            if self.source is not None:
                self.source.require_items()
            encoder = self._other_encoder(name)
            self.work.mkdir(exist_ok=True)
            draft = self.work / DRAFT
            features, missing = recompute_features(self.pool, encoder, draft, source=self.name, draws_bar=not quiet)
            info = replace(
                self.info, encoder=encoder.name, own_features=False, made_by=None,
                features_version=encoder.identity[:VERSION_DIGITS],
            )  # fmt: skip
            assert info.features_version is not None
            path = item_table.write_features(self.folder, features, info.features_version)
            info.write(self.folder)  # from here on the new features are the project's
            self.info, self._encoder, self._pool = info, encoder, None
            item_table.remove_other_features(self.folder, path)
            with suppress(OSError):
                shutil.rmtree(draft)
        left = f"; {count_of(missing, 'item')} could not be read and got the mean of the others" if missing else ""
        return f"features are made by {encoder.name}: {count_of(table, 'item')}, {features.shape[1]} columns{left}"

    def _other_encoder(self, name: str | None) -> Encoder:
        """The encoder of this name, or the best that can be had; an error where that is the one in use."""
        if name is not None:
            encoder = encoder_for(name, self.kind, self.device)
        else:
            choice = choose_encoder(self.kind, self.device)
            if choice.is_plain:
                raise UnderstudyError(f"{choice.reason}; {choice.remedy}")
            encoder = choice.encoder
        if encoder.name == self.info.encoder and encoder.identity[:VERSION_DIGITS] == self.info.features_version:
            raise UsageError(f"{self.folder} has {encoder.name} already; name another encoder")
        return encoder

    def settle_encoder(self, confirm: Callable[[str], bool] | None = None) -> None:
        """Choose the encoder where nobody named one, download it if need be, and write the choice down.

        Where only a weak one can be had, that is said in the notes; with `confirm`, people are asked first, also
        whether they want a model that was found on this machine. Their no is an UnderstudyError.
        """
        if self.info.own_features or self.info.encoder is not None:
            return
        try:
            self._choose_encoder(confirm)
        except BaseException:
            self._discard_draft()
            raise

    def _choose_encoder(self, confirm: Callable[[str], bool] | None) -> None:
        choice = choose_encoder(self.kind, self.device)
        encoder, says = choice.encoder, choice.describe(shlex.quote(self.folder.name), lists_found=confirm is None)
        if choice.is_plain and confirm is not None:
            questions = {f"{says}\nUse {each} instead?": each for each in choice.offered}
            offered = next((each for question, each in questions.items() if confirm(question)), None)
            if offered is not None:
                encoder, says = make_encoder(offered.name, device=self.device), f"features are made by {offered.name}"
            elif not confirm(f"{says}\nGo on with {encoder.name}?"):
                raise UnderstudyError(f"stopped before anything was labelled; {choice.remedy}, and run it again")
            else:
                says = f"features are made by {encoder.name}"
        self._encoder = encoder
        self.notes.append(says)
        self.info = replace(self.info, encoder=encoder.name)
        self.info.write(self.folder)

    def _discard_draft(self) -> None:
        """Leave nothing behind of a project that was made just now and does not begin."""
        with suppress(OSError):
            if self._is_draft and [path.name for path in self.folder.iterdir()] == [INFO_FILE]:
                shutil.rmtree(self.folder)

    def _require_encoder(self) -> Encoder:
        """The project's encoder. Where none was named, the best that works here is chosen and written down."""
        self.settle_encoder()
        if self._encoder is None:
            assert self.info.encoder is not None
            self._encoder = encoder_for(self.info.encoder, self.kind, self.device)
        return self._encoder
