/** What two datasets differ in, by row: a row is known by its episode and its steps, its content by its hash. */
import { canonicalJson } from '../../ingest/events/json.ts';
import type { Lineage } from './lineage.ts';
import type { OpenedDataset } from './read.ts';

type RowKey = { readonly episode_id: string; readonly step_id: string | null; readonly split: string };
export type DatasetDiff = {
  readonly added: readonly RowKey[];
  readonly removed: readonly RowKey[];
  /** In both, with another content. `split` is that of the second. */
  readonly changed: readonly RowKey[];
  /** In both, in another split. */
  readonly moved: readonly RowKey[];
  readonly same: number;
  /** True where the rows in both stand in another order. */
  readonly reordered: boolean;
  /** Names of the recipe's fields that differ. */
  readonly recipe: readonly string[];
};

/** What became of `before` in `after`; keys in row order. */
export function datasetDiff(before: OpenedDataset, after: OpenedDataset): DatasetDiff {
  const old = before.lineage();
  const now = after.lineage();
  const oldRows = new Map(old.map((line) => [keyText(line), line]));
  const nowRows = new Map(now.map((line) => [keyText(line), line]));
  const both = now.filter((line) => oldRows.has(keyText(line)));
  const changed = both.filter((line) => oldRows.get(keyText(line))!.sha256 !== line.sha256);
  const order = old.filter((line) => nowRows.has(keyText(line)));
  return {
    added: now.filter((line) => !oldRows.has(keyText(line))).map(keyOf),
    removed: old.filter((line) => !nowRows.has(keyText(line))).map(keyOf),
    changed: changed.map(keyOf),
    moved: both.filter((line) => oldRows.get(keyText(line))!.split !== line.split).map(keyOf),
    same: both.length - changed.length,
    reordered: order.some((line, i) => keyText(line) !== keyText(both[i]!)),
    recipe: fieldsThatDiffer(before.manifest.recipe, after.manifest.recipe),
  };
}

const keyText = ({ episode_id, step_id, with: others = [] }: Lineage): string =>
  JSON.stringify([episode_id, step_id, ...others.map((other) => [other.episode_id, other.step_id])]);
const keyOf = ({ episode_id, step_id, split }: Lineage): RowKey => ({ episode_id, step_id, split });

function fieldsThatDiffer(a: object, b: object): readonly string[] {
  const of = (recipe: object, name: string) => canonicalJson((recipe as Record<string, unknown>)[name]);
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((name) => of(a, name) !== of(b, name)).sort();
}
