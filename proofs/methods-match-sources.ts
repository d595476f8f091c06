/**
 * Proof that methods give what the published code of their sources gives: that code runs as it stands, on random inputs and on the edges
 * of them, and its answers are compared with ours. The short form has the sources that are packages; the full form also those that are
 * repositories, found below `TROUPE_SOURCES` as OWNER/NAME.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { TroupeError } from '../errors.ts';
import { findMethod, METHODS } from '../store/evaluate/methods/find.ts';
import { runMethod } from '../store/evaluate/methods/run.ts';
import { LOSS_METHODS } from '../trainer/model/losses/catalogue.ts';
import { drawing } from './draw.ts';
import { COMMITS, type Input, type MethodSource, PACKAGES, type Project } from './method-source.ts';
import { ADVANTAGES } from './method-sources-advantages.ts';
import { FILTERS } from './method-sources-filters.ts';
import { LOSSES } from './method-sources-losses.ts';
import { PROCESS } from './method-sources-process.ts';
import { REWARDS } from './method-sources-rewards.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { type PythonWorker, startPython } from './python-worker.ts';

const SOURCES: readonly MethodSource[] = [...ADVANTAGES, ...LOSSES, ...FILTERS, ...REWARDS, ...PROCESS];
const ALL_METHODS = [...METHODS, ...LOSS_METHODS];
const CASES = { short: 300, full: 3000 };

type Answer = { readonly value: unknown } | { readonly raised: string };
type Place = { readonly folder: string; readonly at: string } | { readonly missing: string };
type Packages = Readonly<Record<string, { readonly version: string; readonly folder: string } | null>>;

export const proof: Proof = {
  name: 'methods-match-sources',
  needs: ['python'],
  async run({ short, python, say }: Setting): Promise<Outcome> {
    const worker = startPython(python, 'methods_in_published_code.py');
    const lines: string[] = [];
    const skipped = new Set<string>();
    let ok = true;
    try {
      const packages = await worker.ask<Packages>({ do: 'packages', names: PACKAGES });
      for (const [at, source] of SOURCES.entries()) {
        const { method, project, files } = source;
        const isPackage = (PACKAGES as readonly string[]).includes(project);
        if (short && !isPackage) continue;
        const place = isPackage ? packagePlace(project, packages, python) : repositoryPlace(project, process.env);
        if ('missing' in place) {
          skipped.add(place.missing);
          continue;
        }
        const { folder } = place;
        const cases = short ? CASES.short : CASES.full;
        const found = await compare(worker, source, folder, cases, at).catch((error: Error) => ({
          wrong: error.message,
        }));
        const fine = 'gap' in found;
        const result = fine
          ? `${cases} cases, ${found.refused} refused by both, largest difference ${found.gap.toExponential(1)} of ${source.tolerance}`
          : found.wrong;
        const line = `${fine ? 'ok' : 'NOT OK'}  ${method} = ${project}${place.at} ${files[0]} (${source.published}): ${result}`;
        say(line);
        lines.push(line);
        ok &&= fine;
      }
    } finally {
      await worker.close();
    }
    return { ok, lines, skipped: [...skipped] };
  },
};

type Found = { readonly gap: number; readonly refused: number } | { readonly wrong: string };

async function compare(
  worker: PythonWorker,
  {
    method,
    files,
    published,
    options = [],
    tolerance,
    draw,
    ours = (input: Input) => input,
    compared = (output: unknown) => output,
  }: MethodSource,
  folder: string,
  cases: number,
  seed: number,
): Promise<Found> {
  const found = findMethod(method, ALL_METHODS);
  const random = drawing(seed);
  const inputs = Array.from({ length: cases }, () => draw(random));
  const question = { do: 'run', function: published, files: files.map((file) => join(folder, file)), options, inputs };
  const answers = await worker.ask<Answer[]>(question);
  let [gap, refused] = [0, 0];
  for (const [at, input] of inputs.entries()) {
    const own = answerOf(() => compared(runMethod(found, ours(input as never)) as never, input as never));
    const their = answers[at]!;
    if ('raised' in own && 'raised' in their) refused++;
    else {
      const apart = 'value' in own && 'value' in their ? furthest(own.value, their.value) : Infinity;
      if (!(apart <= tolerance))
        return { wrong: `case ${at}: ours ${shown(own)}, theirs ${shown(their)}, input ${shown(input)}` };
      gap = Math.max(gap, apart);
    }
  }
  return refused === cases
    ? { wrong: `all ${cases} cases are refused by both: ${shown(answers[0])}` }
    : { gap, refused };
}

function answerOf(compute: () => unknown): Answer {
  try {
    return { value: compute() };
  } catch (error) {
    if (error instanceof TroupeError && error.code === 'method_input') return { raised: error.message };
    throw error;
  }
}

/** Largest difference of two numbers at one place, relative above 1; infinite where anything else differs. */
function furthest(ours: unknown, theirs: unknown): number {
  if (typeof ours === 'number' && typeof theirs === 'number') {
    return Math.abs(ours - theirs) / Math.max(1, Math.abs(ours), Math.abs(theirs));
  }
  if (typeof ours !== 'object' || typeof theirs !== 'object' || ours === null || theirs === null) {
    return ours === theirs ? 0 : Infinity;
  }
  const [one, other] = [Object.entries(ours), new Map(Object.entries(theirs))];
  if (one.length !== other.size) return Infinity;
  return one.reduce(
    (most, [name, value]) => Math.max(most, other.has(name) ? furthest(value, other.get(name)) : Infinity),
    0,
  );
}

const shown = (value: unknown): string => {
  const text = JSON.stringify(value);
  return text.length > 600 ? `${text.slice(0, 600)}…` : text;
};

function packagePlace(name: string, packages: Packages, python: string): Place {
  const found = packages[name] ?? null;
  return found === null
    ? { missing: `${python} lacks ${name}; say: ${python} -m pip install --no-deps -r proofs/sources.txt` }
    : { folder: found.folder, at: ` ${found.version}` };
}

function repositoryPlace(project: Project, env: Readonly<Record<string, string | undefined>>): Place {
  const commit = COMMITS[project as keyof typeof COMMITS];
  const root = env.TROUPE_SOURCES;
  if (!root) return { missing: 'TROUPE_SOURCES does not name a folder with clones of the repositories, as OWNER/NAME' };
  const folder = join(root, project);
  const get = `git clone https://github.com/${project} ${folder} && git -C ${folder} checkout ${commit}`;
  if (!existsSync(folder)) return { missing: `${folder} is missing; say: ${get}` };
  const { stdout } = spawnSync('git', ['-C', folder, 'rev-parse', 'HEAD'], { encoding: 'utf8' });
  const head = stdout.trim();
  return head === commit
    ? { folder, at: `@${commit.slice(0, 12)}` }
    : { missing: `${folder} is at ${head || 'no commit'}; say: git -C ${folder} checkout ${commit}` };
}
