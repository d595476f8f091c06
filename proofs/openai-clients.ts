/**
 * Proof that the OpenAI clients for JavaScript and Python work through the gateway, unchanged: whole and streamed, with tools, several
 * candidates, the Responses API, embeddings, errors, an API key, and a policy; and that each call is a row that names its agent. The
 * model server behind the gateway is a script with the OpenAI protocol; gateway, database, keys and sampling process are real.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { registeredPolicyServers } from '../api/gateway/policy-servers.ts';
import { readUpstreams } from '../api/gateway/upstream/settings.ts';
import { openUpstreams } from '../api/gateway/upstream/upstreams.ts';
import { buildApp } from '../api/http/app.ts';
import { openKeyRing } from '../api/http/key-ring.ts';
import { serve } from '../api/http/serve.ts';
import { type Context, withContext } from '../cli/context.ts';
import { createKey } from '../store/keys/api-keys.ts';
import { projectAll } from '../store/projecting/projector.ts';
import { registerProcess } from '../store/queue/jobs/processes.ts';
import { openaiServer } from '../test/api/support/openai-server.ts';
import { tinyContents } from '../test/trainer/tiny-checkpoint.ts';
import { saveCheckpoint } from '../trainer/model/checkpoints/checkpoint.ts';
import { startInfer } from '../trainer/sample/infer.ts';
import { connectInfer } from '../trainer/sample/infer-client.ts';
import { Policy } from '../trainer/sample/policy.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';

/** A client of somebody else, installed in a folder named by what it is made of. */
type Client = {
  readonly language: 'js' | 'py';
  readonly folder: string;
  readonly made: string;
  readonly install: string;
  readonly command: readonly string[];
};

const HERE = join(import.meta.dirname, 'clients');

export function openaiClients(env: Readonly<Record<string, string | undefined>>): readonly Client[] {
  const cache = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci');
  const folder = (name: string, made: string) =>
    join(
      cache,
      `${name}-${createHash('sha256')
        .update(readFileSync(join(HERE, made)))
        .digest('hex')
        .slice(0, 12)}`,
    );
  const [js, py] = [
    folder('client-openai-js', 'openai-js/package-lock.json'),
    folder('client-openai-python', 'openai.requirements.txt'),
  ];
  return [
    {
      language: 'js',
      folder: js,
      made: join(js, 'node_modules', 'openai'),
      install: `mkdir -p ${js} && cp proofs/clients/openai-js/package*.json ${js}/ && (cd ${js} && npm ci)`,
      command: [process.execPath, join(HERE, 'openai-js', 'calls.mjs')],
    },
    {
      language: 'py',
      folder: py,
      made: join(py, 'bin', 'python'),
      install: `python3 -m venv ${py} && ${py}/bin/pip install -r proofs/clients/openai.requirements.txt`,
      command: [join(py, 'bin', 'python'), join(HERE, 'openai_calls.py')],
    },
  ];
}

/** What the script of the model server makes each case say, to the client. */
const EXPECTED: Readonly<Record<string, unknown>> = {
  chat: 'You said hello (0)',
  streamed: 'You said hello (0)',
  both: ['You said hello (0)', 'You said hello (1)'],
  tools: ['get_weather', '{"city":"Oslo"}'],
  text: ' and one',
  responses: 'You said "hi"',
  'responses-streamed': 'You said "hi"',
  embeddings: [0.25, -0.5, 1],
  models: true,
  'wrong-key': ['AuthenticationError', 401],
  busy: ['RateLimitError', 429],
  broken: ['InternalServerError', 500],
  policy: 'string',
  headers: 'You said hello (0)',
  'no-key': ['AuthenticationError', 401],
};
/** The steps of each case; those that failed, and embeddings, are calls without one, and a call that was refused is none. */
const STEPS: Readonly<Record<string, number>> = { both: 2, embeddings: 0, 'wrong-key': 0, busy: 0, broken: 0 };
const NO_CALL = ['models', 'no-key'];

export const proof: Proof = {
  name: 'openai-clients',
  needs: [],
  async run(setting: Setting): Promise<Outcome> {
    const all = openaiClients(process.env);
    const there = all.filter(({ made }) => existsSync(made));
    const skipped = all
      .filter((client) => !there.includes(client))
      .map(({ language, install }) => `no OpenAI client (${language}); say: ${install}`);
    if (there.length === 0) return { ok: true, lines: [], skipped };
    const { DATABASE_URL: before } = process.env;
    delete process.env.DATABASE_URL;
    try {
      const outcome = await withContext({ home: join(setting.scratch, 'home') }, (context) =>
        prove(context, setting, there),
      );
      return { ...outcome, skipped };
    } finally {
      if (before !== undefined) process.env.DATABASE_URL = before;
    }
  },
};

async function prove(context: Context, { scratch, say }: Setting, all: readonly Client[]): Promise<Outcome> {
  const { db, log, book, artifacts } = context;
  const server = await openaiServer();
  const { dir } = await saveCheckpoint(scratch, tinyContents(1), { durable: false });
  const socket = join(scratch, 'infer.sock');
  const infer = await startInfer({ socket, threads: 1 }, Policy.load);
  await infer.load({ dir, name: 'team' });
  const leave = await registerProcess(db, { processId: 'infer-1', role: 'infer', policy: 'team', address: socket });
  const policyServers = registeredPolicyServers(db, connectInfer);
  const models = ['echo', 'tools', 'wrong-key', 'busy', 'broken'];
  const upstreams = openUpstreams(readUpstreams({ script: { base_url: server.baseUrl, models } }, {}));
  const { text: key } = await createKey(db, { name: 'clients', scopes: ['ingest'], expiresAt: null });
  const parts = { db, log, book, artifacts, policyServers, upstreams, keys: openKeyRing(db) };
  const app = await buildApp({ ...parts, project: 'clients', version: '0' });
  const { url, close } = await serve(app, { host: '127.0.0.1', port: 0 });
  const { lines, check, passed } = checklist(say);
  try {
    for (const client of all) {
      const results = await run(client, { GATEWAY: url, TROUPE_KEY: key, CLIENT_FOLDER: client.folder });
      await projectAll(db);
      for (const [name, expected] of Object.entries(EXPECTED)) {
        const got = JSON.stringify(results.get(name));
        const wanted = JSON.stringify(expected);
        const rows = await recorded(db, `${client.language}-${name}`);
        const agent = `${client.language}-agent-${name}`;
        const steps = NO_CALL.includes(name) ? 0 : (STEPS[name] ?? 1);
        const calls = NO_CALL.includes(name) ? 0 : 1;
        const kept = rows.calls === calls && rows.steps === steps && rows.agents.every((one) => one === agent);
        const what = got === wanted ? got : `${got} instead of ${wanted}`;
        const where =
          calls === 0 ? 'nothing recorded' : `${rows.calls} call and ${rows.steps} steps of ${rows.agents.join(', ')}`;
        check(`${client.language} ${name}: ${what}, ${where}`, got === wanted && kept);
      }
    }
    const { rows } = await db.query<{ found: boolean }>(
      'select coalesce(bool_or(data::text like $1), false) as found from troupe.events',
      [`%${key.slice(20)}%`],
    );
    const shown = server.asked.some(({ headers }) => JSON.stringify(headers).includes(key));
    check('the API key is in no event and was shown to no model server', !rows[0]!.found && !shown);
  } finally {
    await close();
    policyServers.close();
    upstreams.close();
    await leave();
    await infer.close();
    await server.close();
  }
  return { ok: passed(), lines };
}

/** The client's result of each case. */
async function run(
  { command, language }: Client,
  env: Readonly<Record<string, string>>,
): Promise<Map<string, unknown>> {
  const [program, ...args] = command as [string, ...string[]];
  const child = spawn(program, args, { env: { PATH: process.env.PATH, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const lines = out.split('\n').filter((line) => line.startsWith('{'));
  if (lines.length === 0) throw new Error(`The ${language} client printed nothing: ${err.slice(-500)}`);
  return new Map(lines.map((line) => JSON.parse(line)).map(({ name, result }) => [name, result]));
}

async function recorded(db: Context['db'], episode: string) {
  const { rows } = await db.query<{ calls: number; steps: number; agents: string[] }>(
    `select count(distinct c.call_id)::integer as calls, count(s.step_id)::integer as steps,
       coalesce(array_agg(distinct coalesce(s.agent, c.completed_agent_id)) filter (where c.call_id is not null), '{}') as agents
     from facts.calls c left join traj.steps s on s.episode_id = c.episode_id and s.call_id = c.call_id where c.episode_id = $1`,
    [episode],
  );
  return rows[0]!;
}
