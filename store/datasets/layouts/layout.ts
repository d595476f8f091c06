/** What a layout is: rows of a dataset in, the files of somebody else's trainer out. Layouts are pure; they neither read nor write files. */
import type { SplitName, Unit } from '../columns.ts';
import type { Shapes } from '../shape.ts';
import type { Counter } from './counter.ts';
import type { HeldTurn, LayoutTurn } from './turn.ts';

type Rows = readonly Readonly<Record<string, unknown>>[];

/** A file of a layout, not yet bytes. `parquet` has columns of nested values; `lines` has one JSON object a line. */
export type LayoutFile =
  | {
      readonly name: string;
      readonly kind: 'parquet';
      readonly split: SplitName;
      readonly shapes: Shapes;
      readonly rows: Rows;
    }
  | { readonly name: string; readonly kind: 'lines'; readonly split: SplitName; readonly rows: Rows }
  | { readonly name: string; readonly kind: 'text'; readonly text: string };

/** For layouts whose answers are all learnt. */
export const LEARNS_ALL = { pair: 'it would teach the rejected answers; take a layout of preferences' } as const;

export type Layout = {
  readonly name: string;
  /** Who reads it, and what a row is. */
  readonly about: string;
  /** Units that it has no rows for, with the reason. A dataset of pairs has rejected answers, which nobody is to learn. */
  readonly refuses?: Readonly<Partial<Record<Unit, string>>>;
  /** What its rows hold beside roles and text; the rest is counted as not held. */
  readonly holds: ReadonlySet<HeldTurn>;
  /** All splits at once, so that their columns are the same. */
  readonly files: (
    splits: readonly { readonly split: SplitName; readonly turns: readonly LayoutTurn[] }[],
    about: {
      /** Name of the dataset. */
      readonly name: string;
      /** Counts rows that a layout cannot hold, by the reason. */
      readonly leftOut: Counter;
      /** Counts values that a layout drops from rows that it holds, by what they are. */
      readonly notHeld: Counter;
    },
  ) => readonly LayoutFile[];
};
