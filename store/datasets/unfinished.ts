/**
 * What a freeze that was stopped left behind. The moment of the database that it read ends with its process, so another one goes on only
 * where the tables are as they were then: it takes the rows that are written as they are and reads those behind them.
 */
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { ArrowBlock } from './arrow.ts';
import type { SplitName } from './columns.ts';
import { LINEAGE_FILE } from './lineage.ts';
import type { Positions } from './manifest.ts';
import { changedBetween, type Moment } from './moment.ts';
import type { Provenance } from './provenance.ts';
import { draftAt, draftPath, isTemporary, type LocalDraft, type Mark, STATE_FILE } from './publish.ts';
import type { WeightSums } from './weights.ts';

/** How far the files of rows are written: up to the end of a batch. */
export type WrittenFile = {
  readonly splits: readonly WrittenSplit[];
  readonly lineage: Mark;
  readonly weights: WeightSums;
  readonly redacted: Provenance['redacted'];
};
export type WrittenSplit = {
  readonly split: SplitName;
  readonly rows: number;
  readonly file: Mark;
  readonly blocks: readonly ArrowBlock[];
  /** The file has its end. */
  readonly whole: boolean;
};

/** What has to be the same for another process to go on. */
export type Frame = {
  /** The recipe that was asked for, before methods, files and datasets were pinned, and as of when. */
  readonly asked: string;
  /** The recipe with what was pinned. */
  readonly pinned: string;
  readonly codeVersion: string;
  readonly moment: Moment;
};

export type UnfinishedFreeze = Frame & {
  readonly name: string;
  readonly positions: Positions;
  readonly written: WrittenFile;
  readonly host: string;
  readonly pid: number;
};

/** Drafts of this process, which nobody else may take. */
const own = new Set<string>();

/** Notes beside the files how far they are written. */
export async function keepUnfinished(draft: LocalDraft, state: Omit<UnfinishedFreeze, 'host' | 'pid'>): Promise<void> {
  own.add(draft.path);
  const place = join(draft.path, STATE_FILE);
  // A power failure may take bytes of the files that the state names: whoever goes on compares their hashes.
  await writeFile(`${place}.tmp`, JSON.stringify({ ...state, host: hostname(), pid: process.pid }));
  await rename(`${place}.tmp`, place);
}

/** Takes the state away: the draft is whole. */
export async function forgetUnfinished(draft: LocalDraft): Promise<void> {
  await rm(join(draft.path, STATE_FILE), { force: true });
  own.delete(draft.path);
}

/** Leaves the draft to whoever freezes the same recipe again; false where there is nothing to go on from. */
export async function leaveUnfinished(draft: LocalDraft): Promise<boolean> {
  const kept = own.delete(draft.path);
  if (kept) await draft.leave();
  return kept;
}

export type ResumedFreeze = { readonly draft: LocalDraft; readonly state: UnfinishedFreeze };

/** The draft of a dead process for the same recipe; null where there is none. */
export async function takeUp(parent: string, asked: string): Promise<ResumedFreeze | null> {
  for (const { directory, state } of await unfinishedIn(parent)) {
    if (state.asked !== asked || isAlive(state, directory)) continue;
    const path = draftPath(parent);
    own.add(path);
    // One of two that want it gets it.
    const moved = await rename(directory, path).then(
      () => true,
      () => false,
    );
    if (!moved) {
      own.delete(path);
      continue;
    }
    const draft = await draftAt(path);
    await keepUnfinished(draft, state);
    const rows = [STATE_FILE, LINEAGE_FILE, ...state.written.splits.map(({ split }) => `${split}.arrow`)];
    for (const name of await readdir(path)) if (!rows.includes(name)) await rm(join(path, name));
    return { draft, state };
  }
  return null;
}

/** Why a freeze cannot go on from there, as the end of a sentence; null where it can. */
export function whyAnew(before: Frame, now: Omit<Frame, 'moment'> & { readonly moment: Moment | null }): string | null {
  if (before.codeVersion !== now.codeVersion)
    return `it was of Troupe ${before.codeVersion} and this one is ${now.codeVersion}`;
  if (now.moment === null) return 'few of the recorded rows are frozen, so that reading them again costs less';
  const changed = changedBetween(before.moment, now.moment);
  if (changed.length > 0)
    return `rows of two moments would be a dataset that never was, and these tables changed since: ${changed.join(', ')}`;
  if (before.pinned !== now.pinned) return 'the methods, files or datasets that the recipe names are others now';
  return null;
}

/** The drafts under a folder that another process could go on with. */
export async function unfinishedIn(
  parent: string,
): Promise<readonly { readonly directory: string; readonly state: UnfinishedFreeze }[]> {
  const names = (await readdir(parent).catch(() => [] as string[])).filter(isTemporary).sort();
  const found = names.map(async (name) => {
    const directory = join(parent, name);
    const text = await readFile(join(directory, STATE_FILE), 'utf8').catch(() => null);
    const state = text === null ? null : stateIn(text);
    return state === null ? [] : [{ directory, state }];
  });
  return (await Promise.all(found)).flat();
}

/** Null for the state of an earlier version, and for one that was cut short. */
function stateIn(text: string): UnfinishedFreeze | null {
  try {
    const state = JSON.parse(text) as UnfinishedFreeze;
    return state.written === undefined ? null : state;
  } catch {
    return null;
  }
}

/** Another machine that shares the folder may be at work on it; this cannot be checked from here. */
function isAlive({ host, pid }: Pick<UnfinishedFreeze, 'host' | 'pid'>, directory: string): boolean {
  if (host !== hostname() || own.has(directory)) return true;
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
