/**
 * One small team in the frameworks of others: a planner looks up two cities at once and hands over to a writer, against a model server
 * that counts what it bills. Each is recorded as its users would record it, and the tables are compared with what happened.
 */
import { execFile } from 'node:child_process';
import { cpSync, existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Db } from '../store/db/pool.ts';
import { waitProjected } from '../store/projecting/positions.ts';
import { installedTeam, TEAMS_FOLDER } from './clients.ts';
import { isHandOver, type ModelServer, SENTENCE } from './model-server.ts';
import { ASPECTS, type Aspect, type Team } from './team-list.ts';

type Found = { readonly [aspect in Aspect]: unknown } & { readonly episodes: number };

/** Where a team finds what it needs. */
export type Places = { readonly url: string; readonly model: ModelServer; readonly scratch: string };

/** Runs a team and compares what the tables show with what happened. */
export async function teamArrives(db: Db, team: Team, places: Places): Promise<readonly [what: string, fine: boolean]> {
  const { model } = places;
  const before = new Set(await episodesOf(db));
  const billedBefore = model.billed.length;
  await runTeam(team, places);
  await waitProjected(db);
  const billed = model.billed.slice(billedBefore);
  const now = await found(
    db,
    (await episodesOf(db)).filter((id) => !before.has(id)),
  );
  const expected = expectedOf(team, billed);
  const wrong = ASPECTS.filter((aspect) =>
    team.lacks?.[aspect] === undefined
      ? JSON.stringify(now[aspect]) !== JSON.stringify(expected[aspect])
      : JSON.stringify(now[aspect]) === JSON.stringify(expected[aspect]),
  );
  const name = `${team.name}, ${team.by}`;
  const sums = [0, 1].map((i) => billed.reduce((sum, one) => sum + one[i]!, 0));
  if (billed.length > 0 && now.episodes === 1 && wrong.length === 0)
    return [`${name}: one episode, ${billed.length} calls, ${sums.join(' + ')} tokens as billed`, true];
  const shown = wrong.map(
    (aspect) =>
      `${aspect} ${JSON.stringify(now[aspect])}, expected ${team.lacks?.[aspect] === undefined ? '' : 'anything but '}${JSON.stringify(expected[aspect])}`,
  );
  return [`${name}: ${[`${now.episodes} episodes`, ...shown].join('; ')}`, false];
}

async function runTeam({ program, packages, env, node }: Team, { url, model, scratch }: Places): Promise<void> {
  const base = installedTeam(packages, process.env);
  const here = join(scratch, 'teams', packages);
  if (!program.endsWith('.py') && !existsSync(here)) {
    cpSync(join(TEAMS_FOLDER, packages), here, { recursive: true });
    symlinkSync(join(base, 'node_modules'), join(here, 'node_modules'));
  }
  const file = program.endsWith('.py') ? join(TEAMS_FOLDER, program) : join(scratch, 'teams', program);
  const command = program.endsWith('.py') ? join(base, 'bin', 'python') : node ? join(base, node) : process.execPath;
  const own = {
    PATH: process.env.PATH,
    HOME: scratch,
    PYTHONDONTWRITEBYTECODE: '1',
    TROUPE_URL: url,
    MODEL_URL: `${model.origin}/v1`,
    ...env?.(url, model.origin),
  };
  await promisify(execFile)(command, [file], { cwd: scratch, timeout: 180_000, env: own, maxBuffer: 2 ** 26 });
}

function expectedOf({ subAgent = false }: Team, billed: ModelServer['billed']): Omit<Found, 'episodes'> {
  const cities = ['Bern', 'Rome'];
  return {
    agents: subAgent ? ['planner', 'planner', 'writer', 'planner'] : ['planner', 'planner', 'writer'],
    parent: subAgent ? 'planner' : null,
    calls: billed.length,
    tools: cities.map((city) => ({ city })),
    results: cities.map((city) => `${city} is far`),
    tokens: billed,
    text: SENTENCE,
    'hand-over': 1,
  };
}

async function episodesOf(db: Db): Promise<readonly string[]> {
  await waitProjected(db);
  const { rows } = await db.query<{ episode_id: string }>('select episode_id from traj.episodes');
  return rows.map(({ episode_id }) => episode_id);
}

/** What the tables show of these episodes. */
async function found(db: Db, episodes: readonly string[]): Promise<Found> {
  const { rows: steps } = await db.query<{ agent: string; text: string; input: number; output: number }>(
    `select agent, text, input_tokens::integer as input, output_tokens::integer as output from traj.steps
     where episode_id = any($1) order by input_tokens`,
    [episodes],
  );
  const { rows: agents } = await db.query<{ parent: string | null }>(
    `select parent_agent_id as parent from traj.agents where episode_id = any($1) and agent = 'writer'`,
    [episodes],
  );
  const { rows: tools } = await db.query<{ name: string; arguments: unknown; output: unknown }>(
    `select name, arguments, output from traj.tool_calls
     where episode_id = any($1) order by name, arguments::text, output::text`,
    [episodes],
  );
  const lookedUp = tools.filter(({ name }) => /(?:^|__)look_up$/.test(name));
  return {
    episodes: episodes.length,
    agents: steps.map(({ agent }) => agent),
    parent: agents[0]?.parent ?? null,
    calls: steps.length,
    tools: lookedUp.map((tool) => tool.arguments),
    results: lookedUp.map(({ output }) => /[A-Z]\w+ is far/.exec(JSON.stringify(output) ?? '')?.[0] ?? null),
    tokens: steps.map(({ input, output }) => [input, output]),
    text: steps.at(-1)?.text ?? null,
    'hand-over': tools.filter(({ name }) => isHandOver(name)).length,
  };
}
