/**
 * Proof that the recorder for Python says what the tables show: a program of its own records a team of two at a real server, with
 * the server there, with the server away and the program killed, and at the program's end; everything arrives exactly once.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { buildApp } from '../api/http/app.ts';
import { openKeyRing } from '../api/http/key-ring.ts';
import { serve } from '../api/http/serve.ts';
import { type Context, withContext } from '../cli/context.ts';
import { createRecorder } from '../ingest/recorder/recorder.ts';
import { reconcile } from '../store/log/reconcile.ts';
import { projectAll } from '../store/projecting/projector.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';

const FOLDER = join(import.meta.dirname, '..', 'examples', 'recorder');
const PROGRAM = join(import.meta.dirname, 'python_team.py');
const NOBODY = 'http://127.0.0.1:9';

export const proof: Proof = {
  name: 'python-recorder',
  needs: [],
  async run(setting: Setting): Promise<Outcome> {
    const python = process.env.TROUPE_PYTHON || 'python3';
    if (spawnSync(python, ['--version']).status !== 0) {
      return { ok: true, lines: [], skipped: [`no Python at ${python}; install python3, or set TROUPE_PYTHON`] };
    }
    // The embedded server of the scratch home, whatever the caller works with.
    const { DATABASE_URL: before } = process.env;
    delete process.env.DATABASE_URL;
    try {
      return await withContext({ home: join(setting.scratch, 'home') }, (context) => prove(context, python, setting));
    } finally {
      if (before !== undefined) process.env.DATABASE_URL = before;
    }
  },
};

async function prove(context: Context, python: string, { scratch, say }: Setting): Promise<Outcome> {
  const { db, log, book, artifacts } = context;
  const { lines, check, passed } = checklist(say);
  const nobody = () => Promise.reject(new Error('nobody speaks here'));
  const policyServers = { models: async () => [], sample: nobody, prompt: nobody };
  const app = await buildApp({
    db,
    log,
    book,
    artifacts,
    policyServers,
    keys: openKeyRing(db),
    project: 'recorder',
    version: '0',
  });
  const { url, close } = await serve(app, { host: '127.0.0.1', port: 0 });
  const spill = join(scratch, 'spill');
  const run = (at: string, what: string) => program(python, [PROGRAM, FOLDER, at, spill, what]);
  try {
    const online = await run(url, 'online');
    check(`with the server there, all is accepted: ${online.out}`, /"accepted": 13,/.test(online.out));

    const killed = await run(NOBODY, 'killed');
    check(
      `with the server away, all is kept on disk before the kill: ${killed.out}`,
      killed.signal === 'SIGKILL' && /"spilled": 13/.test(killed.out) && readdirSync(spill).length > 0,
    );
    const refused = await run(url, 'refused');
    check(`a refused event is reported by field: ${refused.out.slice(0, 120)}`, /data\.outcome/.test(refused.out));
    check('the next program sent first what the killed one left', readdirSync(spill).length === 0);

    await run(NOBODY, 'exit');
    check('what is unsent at the end of a program is written down', readdirSync(spill).length > 0);
    const { accepted } = await createRecorder({ baseUrl: url, source: '/node', spill }).flush();
    check(`the recorder for Node sends what the one for Python left: ${accepted} accepted`, accepted === 12);

    await projectAll(db);
    const { rows } = await db.query<{ episode_id: string; steps_text: string }>(
      `select episode_id, string_agg(agent || ' ' || role || ' ' || text, ', ' order by turn, candidate) as steps_text
       from traj.steps group by 1 order by 1`,
    );
    const stepsText = 'planner planner multiply \u2028 é, solver solver 41, solver solver 42';
    check(
      `three episodes have their steps with the right agents: ${rows.map((row) => row.episode_id).join(', ')}`,
      rows.length === 3 && rows.every((row) => row.steps_text === stepsText),
    );
    const { rows: whole } = await db.query<{ n: number }>(
      `select count(*)::integer as n from traj.episodes e
       where closed and reward = 1 and outcome = 'success' and calls = 2 and steps = 3 and tool_calls = 1`,
    );
    check('each is closed, with its reward, calls, steps and tool call, exactly once', whole[0]!.n === 3);
    check('the counts of endpoint, log and tables agree', (await reconcile(db)).ok);
  } finally {
    await close();
  }
  return { ok: passed(), lines };
}

/** The server answers in this process, so the program must not be waited for synchronously. */
async function program(python: string, args: readonly string[]): Promise<{ out: string; signal: string | null }> {
  const child = spawn(python, [...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  const [, signal] = (await once(child, 'close')) as [number | null, string | null];
  return { out: out.trim(), signal };
}
