/** The files that hold the rows of a dataset and their lineage, written batch by batch; a freeze that was stopped goes on behind a batch. */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { canonicalJson } from '../../ingest/events/json.ts';
import type { Session } from '../db/pool.ts';
import { copyToArrow } from './arrow.ts';
import { branchRowsQuery } from './branch-query.ts';
import type { SplitName, Unit } from './columns.ts';
import { extraColumns, LINEAGE_FILE, type RowTrail, rowTrail } from './lineage.ts';
import { lineageLines } from './lineage-lines.ts';
import { pairRowsQuery } from './pair-query.ts';
import { markCounter, type Provenance } from './provenance.ts';
import type { FileFacts, LocalDraft, MarkedSink } from './publish.ts';
import { type ChosenColumns, columnsOf, rowsQuery, splitsOf, type UsedMethods } from './query.ts';
import type { Recipe } from './recipe.ts';
import type { WrittenFile, WrittenSplit } from './unfinished.ts';
import { WEIGHT_COLUMN, weightCounter } from './weights.ts';

export type RowFiles = {
  /** Number of rows by split. */
  readonly rows: Readonly<Partial<Record<SplitName, number>>>;
  readonly contentSha256: string;
  /** Marks of redaction in the rows, by rule. */
  readonly redacted: Provenance['redacted'];
  /** Least, greatest and mean weight, as text. */
  readonly weights: () => string;
  /** Flushes the files. */
  readonly finish: () => Promise<readonly FileFacts[]>;
};

/** The files of a draft as they were when it was stopped. */
export type OpenFile = {
  readonly written: WrittenFile;
  readonly sinks: ReadonlyMap<string, MarkedSink>;
  readonly trails: ReadonlyMap<string, RowTrail>;
};

/** Opens the files of rows behind what is written; null where one is not as it was written. */
export async function reopenRows(draft: LocalDraft, written: WrittenFile, unit: Unit): Promise<OpenFile | null> {
  const sinks = new Map<string, MarkedSink>();
  const marks = [
    [LINEAGE_FILE, written.lineage] as const,
    ...written.splits.map(({ split, file }) => [`${split}.arrow`, file] as const),
  ];
  for (const [name, mark] of marks) {
    const sink = await draft.reopen(name, mark);
    if (sink === null) return null;
    sinks.set(name, sink);
  }
  const trails = new Map(written.splits.map(({ split }) => [split as string, rowTrail(split, unit)]));
  for await (const line of lineageLines(draft.path, { files: [{ name: LINEAGE_FILE, ...written.lineage }] }))
    trails.get(line.split)?.addLine(line);
  const same = written.splits.every(({ split, rows }) => trails.get(split)!.count() === rows);
  return same ? { written, sinks, trails } : null;
}

const rowsIn = (unit: Unit) => (unit === 'pair' ? pairRowsQuery : unit === 'branch' ? branchRowsQuery : rowsQuery);
/** Half of the lines are hashes: level 1 takes half the time of level 6 for 3 % more bytes. */
const compress = (lines: Buffer): Promise<Buffer> => promisify(gzip)(lines, { level: 1 });

/**
 * Writes the rows of each split. After each batch `keep` gets what is written so far; what it throws ends the writing.
 * @param begun the files to go on with, of the same draft
 */
export async function writeRows(
  tx: Session,
  draft: LocalDraft,
  from: { readonly recipe: Recipe; readonly methods: UsedMethods; readonly chosen: ChosenColumns },
  begun: OpenFile | null,
  keep: (written: WrittenFile) => Promise<void>,
): Promise<RowFiles> {
  const { recipe, methods, chosen } = from;
  const columns = columnsOf(recipe);
  const content = createHash('sha256').update(canonicalJson(columns.map(({ name, kind }) => [name, kind])));
  const weights = weightCounter(begun?.written.weights);
  const marks = markCounter(begun?.written.redacted);
  const weighed = columns.indexOf(WEIGHT_COLUMN);
  const lineage = begun?.sinks.get(LINEAGE_FILE) ?? (await draft.file(LINEAGE_FILE));
  const sinks: MarkedSink[] = [lineage];
  const whole: WrittenSplit[] = [];
  const rows: Partial<Record<SplitName, number>> = {};
  let before: Promise<void> = Promise.resolve();
  // While the lineage of a batch is compressed, the next one is read.
  const note = async (lines: Buffer, splits: readonly WrittenSplit[]): Promise<void> => {
    const [sums, redacted] = [weights.sums(), marks.counts()];
    await before;
    before = (async () => {
      if (lines.length > 0) await lineage.write(await compress(lines));
      await keep({ splits, lineage: await lineage.mark(), weights: sums, redacted });
    })();
    before.catch(() => {}); // Seen again, and thrown, by whoever waits for it next.
  };
  for (const split of splitsOf(recipe)) {
    const name = `${split}.arrow`;
    const done = begun?.written.splits.find((one) => one.split === split);
    const sink = begun?.sinks.get(name) ?? (await draft.file(name));
    const trail = begun?.trails.get(split) ?? rowTrail(split, recipe.unit);
    sinks.push(sink);
    let blocks = done?.blocks ?? [];
    if (!done?.whole) {
      const selected = rowsIn(recipe.unit)(recipe, methods, chosen, split);
      const behind = done ? ` offset ${done.rows}` : '';
      await copyToArrow(
        tx.copyOut(`copy (${selected}${behind}) to stdout (format binary)`, { again: true }),
        columns,
        (bytes) => sink.write(bytes),
        {
          extra: extraColumns(recipe.unit),
          onRow: trail.add,
          onBytes: marks.add,
          ...(done ? { begun: { bytes: done.file.bytes, blocks: done.blocks } } : {}),
          afterBatch: async (batch, now) => {
            if (weighed >= 0) weights.add(batch[weighed]!);
            blocks = now.blocks;
            const written = { split, rows: trail.count(), file: await sink.mark(), blocks, whole: false };
            await note(trail.take(), [...whole, written]);
          },
        },
      );
    }
    whole.push({ split, rows: trail.count(), file: await sink.mark(), blocks, whole: true });
    content.update(canonicalJson([split, trail.count()])).update(trail.digest());
    rows[split] = trail.count();
  }
  await note(Buffer.alloc(0), whole);
  await before;
  // A file of gzip has a member, also where there is no row.
  if ((await lineage.mark()).bytes === 0) await lineage.write(await compress(Buffer.alloc(0)));
  return {
    rows,
    contentSha256: content.digest('hex'),
    redacted: marks.counts(),
    weights: weights.range,
    finish: () => Promise.all(sinks.map((sink) => sink.finish())),
  };
}
