/**
 * Proof that every ready recipe freezes the same bytes in two homes: published logs, where TROUPE_DATA names their folder, and made-up
 * teams are imported in each, the second time in the opposite order, in another time zone and locale; there the tables are made again from the
 * log in small portions before anything is frozen. Each dataset is written in some layouts, with --full in all that take it. No task is in two parts.
 */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import type { Event } from '../ingest/events/events.ts';
import { sha256 } from '../ingest/events/json.ts';
import { LAYOUTS } from '../store/datasets/layouts/catalogue.ts';
import { openDataset } from '../store/datasets/read.ts';
import { MADE_TEAMS } from '../test/store/datasets/made-teams.ts';
import { calculatorTeam } from './calculator-team.ts';
import type { Answer } from './freeze-recipes.ts';
import type { Outcome, Proof, Setting } from './proof.ts';

const LOGS = ['tau-bench', 'who-and-when'];
const TASKS = 12;
const SOME = 4;

export const proof: Proof = {
  name: 'recipes-freeze-alike',
  needs: [],
  async run({ short, scratch, say }: Setting): Promise<Outcome> {
    const lines: string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(lines.at(-1)!);
    };
    const { TROUPE_DATA: data } = process.env;
    const [team, calculators] = [join(scratch, 'made.jsonl'), join(scratch, 'calculators.jsonl')];
    writeFileSync(team, madeTeams());
    writeFileSync(calculators, calculatorTeam(TASKS));
    const files = [team, calculators, ...(data ? LOGS.map((name) => join(data, 'data', name)) : [])];
    const each = String(short ? SOME : LAYOUTS.length);
    const [one, two] = [join(scratch, 'one'), join(scratch, 'two')];
    const first = await frozenIn(one, files, each, '0', {});
    const other = { TZ: 'Pacific/Chatham', LC_ALL: 'de_DE.UTF-8', LANG: 'de_DE.UTF-8' };
    const second = await frozenIn(two, files.toReversed(), each, '500', other);
    check(
      'the second home has another time zone and locale',
      second.zone === other.TZ && second.half === '0,5',
      second,
    );

    const [before, after] = [bytesUnder(join(one, 'out')), bytesUnder(join(two, 'out'))];
    const differ = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
      (file) => before[file] !== after[file],
    );
    const count = Object.keys(before).length;
    check(
      `${count} files of ${Object.keys(first.recipes).length} recipes are the same bytes in both homes`,
      count > 0 && differ.length === 0,
      differ.slice(0, 10),
    );
    for (const [name, { directory, rows, warnings, layouts }] of Object.entries(first.recipes)) {
      const tasks = await tasksInTwoParts(directory);
      // Few made-up tasks leave a part of a dataset empty, published logs and made-up teams are mixed here, and without the logs some values
      // are nowhere.
      const expected = / has no row: |^Answers come from | are from episodes that failed| whose split is test/;
      const warned = warnings.filter((warning) => data && !expected.test(warning));
      check(
        `${name}: ${rows} rows, ${layouts.length} layouts, no task in two parts`,
        tasks.length === 0 && warned.length === 0 && rows > 0 && layouts.length > 0,
        [tasks, warned, rows, layouts],
      );
    }
    const written = new Set(Object.values(first.recipes).flatMap(({ layouts }) => layouts));
    const missing = LAYOUTS.map(({ name }) => name).filter((name) => !written.has(name));
    check(`each of ${LAYOUTS.length} layouts has rows of some recipe`, missing.length === 0, missing);
    const skipped = data ? [] : ['Without TROUPE_DATA published logs are not among what is frozen.'];
    return { ok: lines.every((line) => line.startsWith('ok')), lines, skipped };
  },
};

/** The episodes of every made-up team, as lines of Troupe's own format. A call that nobody asked has messages, too: most layouts are made of them. */
function madeTeams(): string {
  const events = [...new Set(Object.values(MADE_TEAMS))].flatMap((plays) => plays().flat());
  const calls = (name: Event['name']) => events.filter((event) => event.name === name);
  const asked = new Set(calls('generation.requested').map(({ data }) => callOf(data)));
  const unasked = calls('generation.completed').filter(({ data }) => !asked.has(callOf(data)));
  return [...events, ...unasked.map(questionOf)].map((event) => `${JSON.stringify(lineOf(event))}\n`).join('');
}

type Data = Readonly<Record<string, unknown>>;

const callOf = (data: unknown): string => {
  const { episode_id, call_id } = data as Data;
  return JSON.stringify([episode_id, call_id]);
};

function questionOf({ source, id, time, data }: Event): Asked {
  const { episode_id, call_id, agent_id, role, seq, turn } = data as Data;
  const input = [
    { role: 'system', content: `You are the ${role ?? 'agent'} of a made-up team.` },
    { role: 'user', content: `${call_id} of ${episode_id}: what do you say?` },
  ];
  const asks = { episode_id, call_id, agent_id, role, seq, turn, input };
  return { name: 'generation.requested', type_version: 1, source, id: `${id}/asked`, time, data: asks };
}

type Asked = Pick<Event, 'name' | 'type_version' | 'source' | 'id' | 'time'> & { readonly data: unknown };

const lineOf = ({ name, type_version, source, id, time, data }: Asked) => ({
  ...{ specversion: '1.0', id, source, type: `troupe.${name}.v${type_version}` },
  ...(time === null ? {} : { time }),
  data,
});

async function frozenIn(
  place: string,
  files: readonly string[],
  each: string,
  portion: string,
  env: Readonly<Record<string, string>>,
): Promise<Answer> {
  const { DATABASE_URL: _, ...inherited } = process.env;
  const program = join(import.meta.dirname, 'freeze-recipes.ts');
  const args = [
    '--import',
    'tsx',
    program,
    join(place, 'home'),
    join(place, 'out'),
    JSON.stringify(files),
    each,
    portion,
  ];
  const options = { env: { ...inherited, ...env }, maxBuffer: 2 ** 26 };
  const { stdout } = await promisify(execFile)(process.execPath, args, options);
  return JSON.parse(stdout.slice(stdout.indexOf('{"zone"'))) as Answer;
}

const bytesUnder = (folder: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name, parentPath }) => join(parentPath, name))
      .map((path) => [relative(folder, path), sha256(readFileSync(path))]),
  );

/** Tasks, or episodes without one, that rows of several parts have. */
async function tasksInTwoParts(directory: string): Promise<readonly unknown[]> {
  const dataset = await openDataset(directory);
  const parts = new Map<unknown, Set<string>>();
  for (const split of dataset.splits) {
    for (const { task_id, episode_id } of dataset.rows(split)) {
      const task = task_id ?? episode_id;
      parts.set(task, (parts.get(task) ?? new Set()).add(split));
    }
  }
  return [...parts].filter(([, of]) => of.size > 1).map(([task]) => task);
}
