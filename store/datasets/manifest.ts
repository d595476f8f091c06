/** The manifest of a frozen dataset, what its identity is made of, and the event that records it in the log. */
import type { Draft } from '../../ingest/events/events.ts';
import { canonicalJson, sha256 } from '../../ingest/events/json.ts';
import type { ColumnShape } from './arrow.ts';
import type { ChosenMethod } from './chosen-methods.ts';
import type { Provenance } from './provenance.ts';
import type { FileFacts } from './publish.ts';
import type { Recipe } from './recipe.ts';

/** How far each projection had read, by partition: `{"facts/embedded": {"0": 17, …}}`. */
export type Positions = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** What one condition did. `before` is null where counting would have meant reading what an index let us skip. */
export type FunnelStage = {
  readonly name: string;
  readonly of: 'episodes' | 'steps' | 'pairs' | 'branches';
  readonly before: number | null;
  readonly after: number;
  /** Up to three ids of what was dropped here; the first by id. */
  readonly dropped: readonly string[];
};

/** Why a dataset has no row, as the end of a sentence: what left none, and what took rows away before it. */
export function whyEmpty(funnel: readonly FunnelStage[]): string {
  const at = funnel.findIndex(({ before, after }) => before !== 0 && after === 0);
  if (at < 0) return 'nothing is recorded that it could hold';
  const { name, of, before } = funnel[at]!;
  const taken = funnel
    .slice(0, at)
    .flatMap((one) =>
      one.before === null || one.before === one.after
        ? []
        : [`"${one.name}" took ${one.before - one.after} of ${one.before} ${one.of}`],
    );
  const last = `"${name}" leaves none of the ${before === null ? of : `${before} ${of}`}`;
  return taken.length === 0 ? last : `${last}; before it ${taken.join(', ')}`;
}

/** In the first, lists of messages, of steps and of tools were columns of JSON text; in the second they are lists of structs. */
export const FORMATS = ['troupe-dataset/1', 'troupe-dataset/2'] as const;

export type Manifest = {
  readonly format: (typeof FORMATS)[number];
  readonly dataset_id: string;
  readonly name: string;
  /** Over columns and rows in order, whatever recipe chose them. */
  readonly content_sha256: string;
  readonly code_version: string;
  readonly recipe: Recipe;
  readonly positions: Positions;
  readonly methods: {
    readonly verdicts: readonly ChosenMethod[];
    readonly reward: ChosenMethod | null;
    readonly credit: ChosenMethod | null;
  };
  readonly columns: readonly ColumnShape[];
  /** Number of rows by split. */
  readonly rows: Readonly<Record<string, number>>;
  readonly funnel: readonly FunnelStage[];
  /** Absent in datasets that were frozen before it was noted. */
  readonly provenance?: Provenance;
  readonly files: readonly FileFacts[];
};

/**
 * A dataset's rows by split, each entry the candidates of one call: `[episode_id, call_id, [candidate, …]]`, in row order; for whole episodes
 * `[episode_id, null, [null]]`. Of pairs the preferred answers stand under the split and the rejected ones under `SPLIT.rejected`; of branches
 * the last answers, and those before them under `SPLIT.earlier-1` and so on. An entry names its row where that is not the next one.
 */
export type CompactRows = Readonly<Record<string, readonly CompactRow[]>>;
export type CompactRow = readonly [
  episodeId: string,
  callId: string | null,
  candidates: readonly (number | null)[],
  row?: number,
];

/**
 * A dataset is its recipe and its rows: two recipes that happen to give the same rows (none, for instance) stay two datasets, and
 * the same recipe with the same rows is the same dataset, however far the log went on meanwhile.
 */
export const datasetId = (contentSha256: string, recipe: Recipe): string =>
  sha256(canonicalJson([contentSha256, recipe])).slice(0, 16);

export const manifestText = (manifest: Manifest): string => `${JSON.stringify(manifest, null, 2)}\n`;

export type DraftOptions = {
  /** When it was frozen, RFC 3339, or null where nobody knows. */
  readonly at: string | null;
  /** Where its directory is. */
  readonly uri?: string | null;
  readonly source?: string;
};

/**
 * The event that makes a dataset known: it carries the manifest and which step stands in which row, so lineage needs no file. Of many rows
 * each further part is an event of its own, with the same manifest.
 */
export function datasetDraft(
  manifest: Manifest,
  rows: CompactRows,
  { at, uri = null, source = 'troupe' }: DraftOptions,
  part = 0,
): Draft<'artifact.attached'> {
  const text = manifestText(manifest);
  return {
    name: 'artifact.attached',
    source,
    id: `dataset/${manifest.dataset_id}${part === 0 ? '' : `/rows-${part}`}`,
    time: at,
    data: {
      artifact_id: manifest.dataset_id,
      role: 'dataset',
      media_type: 'application/json',
      name: manifest.name,
      sha256: sha256(text),
      size: Buffer.byteLength(text),
      uri,
      manifest,
      rows,
    },
  };
}
