/**
 * One small team in the frameworks of others: a planner looks up two cities at once and hands over to a writer, against a model server
 * that counts what it bills. Each is traced as its users would trace it.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Db } from '../store/db/pool.ts';
import { waitProjected } from '../store/projecting/positions.ts';
import { modelServer, SENTENCE } from './model-server.ts';

const FOLDER = fileURLToPath(new URL('clients/teams', import.meta.url));

type Team = {
  readonly name: string;
  readonly file: string;
  /** Which requirements it runs with. */
  readonly packages: 'langgraph' | 'agents';
  readonly env?: (url: string) => Readonly<Record<string, string>>;
};

const LANGSMITH = { LANGSMITH_TRACING: 'true', LANGSMITH_API_KEY: 'none' };

export const TEAMS: readonly Team[] = [
  {
    name: 'LangGraph by LangSmith',
    file: 'langgraph_team.py',
    packages: 'langgraph',
    env: (url) => ({ ...LANGSMITH, LANGSMITH_ENDPOINT: url }),
  },
  {
    name: 'LangGraph by LangSmith on OpenTelemetry',
    file: 'langgraph_team.py',
    packages: 'langgraph',
    env: (url) => ({
      ...LANGSMITH,
      LANGSMITH_OTEL_ENABLED: 'true',
      LANGSMITH_OTEL_ONLY: 'true',
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
    }),
  },
  { name: 'OpenAI Agents SDK', file: 'openai_agents_team.py', packages: 'agents' },
  { name: 'pydantic-ai with logfire', file: 'pydantic_ai_team.py', packages: 'agents' },
];

type Env = Readonly<Record<string, string | undefined>>;

function installed(packages: Team['packages'], env: Env): string {
  const hash = createHash('sha256')
    .update(readFileSync(join(FOLDER, `${packages}.requirements.txt`)))
    .digest('hex')
    .slice(0, 12);
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci', `team-${packages}-${hash}`);
}

/** How to get the packages of the teams, where some are missing. */
export function missingTeams(env: Env): string | null {
  const missing = [...new Set(TEAMS.map(({ packages }) => packages))].filter(
    (packages) => !existsSync(join(installed(packages, env), 'complete')),
  );
  return missing.length === 0
    ? null
    : `no packages of the teams ${missing.join(', ')}; run: proofs/clients/install --teams (about 5 minutes, 700 MB)`;
}

type Found = {
  readonly episodes: readonly string[];
  readonly billed: readonly (readonly [number, number])[];
  readonly agents: readonly string[];
  readonly lastText: string | null;
  readonly tools: readonly string[];
};

/** Runs a team and compares what the tables show with what happened. */
export async function teamArrives(db: Db, { name, file, packages, env }: Team, url: string, scratch: string) {
  const model = await modelServer();
  try {
    const before = new Set((await found(db, new Set())).episodes);
    const own = { PATH: process.env.PATH, HOME: scratch, TROUPE_URL: url, MODEL_URL: model.url, ...env?.(url) };
    const python = join(installed(packages, process.env), 'bin', 'python');
    await promisify(execFile)(python, [join(FOLDER, file)], { cwd: scratch, timeout: 120_000, env: own });
    const now = await found(db, before);
    const expected: Omit<Found, 'episodes' | 'lastText'> = {
      billed: model.billed,
      agents: ['planner', 'writer'],
      tools: ['planner look_up "Bern is far"', 'planner look_up "Rome is far"', 'planner transfer_to_writer'],
    };
    const { episodes, lastText, ...rest } = now;
    const fine = episodes.length === 1 && lastText === SENTENCE && JSON.stringify(rest) === JSON.stringify(expected);
    const sums = [0, 1].map((i) => model.billed.reduce((sum, one) => sum + one[i]!, 0));
    const what = fine
      ? `${name}: one episode of planner and writer, ${model.billed.length} calls, ${sums.join(' + ')} tokens as billed, 2 parallel tool calls, 1 hand-over`
      : `${name}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(now)}`;
    return [what, fine] as const;
  } finally {
    model.close();
  }
}

/** What the tables show of episodes that were not there before. */
async function found(db: Db, before: ReadonlySet<string>): Promise<Found> {
  await waitProjected(db);
  const { rows: all } = await db.query<{ episode_id: string }>('select episode_id from traj.episodes');
  const episodes = all.map(({ episode_id }) => episode_id).filter((id) => !before.has(id));
  const { rows: steps } = await db.query<{ agent: string; text: string; input: number; output: number }>(
    `select agent, text, input_tokens::integer as input, output_tokens::integer as output from traj.steps
     where episode_id = any($1) order by input_tokens`,
    [episodes],
  );
  // The result of handing over is whatever a framework makes of it.
  const { rows: tools } = await db.query<{ tool: string }>(
    `select agent_id || ' ' || name || case name when 'look_up' then ' ' || output::text else '' end as tool from traj.tool_calls
     where episode_id = any($1) order by name, output::text`,
    [episodes],
  );
  return {
    episodes,
    billed: steps.map(({ input, output }) => [input, output] as const),
    agents: [...new Set(steps.map(({ agent }) => agent))].sort(),
    lastText: steps.at(-1)?.text ?? null,
    tools: tools.map(({ tool }) => tool),
  };
}
