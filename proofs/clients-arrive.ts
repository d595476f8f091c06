/**
 * Proof that real tracing clients arrive: each program in `clients/` runs as its users would run it, against a server of `troupe run`,
 * and ends in one row of `traj.steps` that names the agent and its text; whole teams in frameworks of others are compared with what
 * happened, three of them in the short form; and everything that was sent, sent again, changes no table.
 */
import { join } from 'node:path';
import { type Context, withContext } from '../cli/context.ts';
import { addressOf, roleSettings, startRole } from '../cli/processes/children.ts';
import { waitProjected } from '../store/projecting/positions.ts';
import { checksum } from '../store/projecting/rebuilding/checksum.ts';
import { missingTeams, PROGRAMS, runClient, SHORT_TEAMS } from './clients.ts';
import { modelServer } from './model-server.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { recordingProxy, type Sent, send } from './recording-proxy.ts';
import { TEAMS } from './team-list.ts';
import { teamArrives } from './teams.ts';

/** By which the traces of a program that cannot be changed are one episode. */
const SPANS = JSON.stringify({ episodes: [{ service: 'autogen-*', by: 'session.id' }] });

type Check = readonly [what: string, fine: boolean];
type Step = { readonly episode_id: string; readonly agent: string | null; readonly text: string | null };

export const proof: Proof = {
  name: 'clients-arrive',
  needs: ['clients'],
  async run(setting: Setting): Promise<Outcome> {
    const { DATABASE_URL: before } = process.env;
    delete process.env.DATABASE_URL;
    try {
      return await withContext({ home: join(setting.scratch, 'home') }, (context) => prove(context, setting));
    } finally {
      if (before !== undefined) process.env.DATABASE_URL = before;
    }
  },
};

async function prove(context: Context, { short, say, scratch }: Setting): Promise<Outcome> {
  const model = await modelServer();
  const upstreams = JSON.stringify({ scripted: { base_url: `${model.origin}/v1`, models: ['*'] } });
  const given = roleSettings(context.config);
  const settings = { ...given, env: { ...given.env, TROUPE_UPSTREAMS: upstreams, TROUPE_SPANS: SPANS } };
  const failures: Error[] = [];
  const start = (role: string, more: readonly string[] = []) =>
    startRole(role, settings, more, (error) => failures.push(error));
  const children = [start('serve', ['--port', '0']), start('project')];
  const { lines, check, passed } = checklist(say);
  const skipped: string[] = [];
  const server = await addressOf(context.db, children[0]!, () => null);
  const proxy = await recordingProxy(server);
  try {
    for (let time = 0; time < (short ? 1 : 5); time++) {
      for (const program of PROGRAMS) check(...(await arrives(context, program, proxy, scratch)));
    }
    const inShort = new Set<string>(SHORT_TEAMS);
    const teams = short ? TEAMS.filter(({ packages }) => inShort.has(packages)) : TEAMS;
    const missing = missingTeams(
      teams.map(({ packages }) => packages),
      process.env,
    );
    if (missing !== null) skipped.push(missing);
    else for (const team of teams) check(...(await teamArrives(context.db, team, { url: proxy.url, model, scratch })));
    check(...(await againChangesNothing(context, server, proxy.sent.filter(isTracing))));
    if (failures.length > 0) check(`a process of ours ended: ${failures[0]!.message}`, false);
  } finally {
    proxy.close();
    model.close();
    await Promise.all(children.map((child) => child.stop()));
  }
  return { ok: passed(), lines, skipped };
}

async function arrives(
  { db }: Context,
  program: string,
  proxy: { readonly url: string; readonly sent: readonly Sent[] },
  scratch: string,
): Promise<Check> {
  const steps = async (): Promise<readonly Step[]> => {
    await waitProjected(db);
    return (await db.query<Step>('select episode_id, agent, text from traj.steps')).rows;
  };
  const before = new Set((await steps()).map(({ episode_id }) => episode_id));
  const sentBefore = proxy.sent.length;
  await runClient(program, proxy.url, join(scratch, 'clients'), process.env);
  const arrived = (await steps()).filter(({ episode_id }) => !before.has(episode_id));
  const sent = proxy.sent.slice(sentBefore);
  const [step] = arrived;
  const refused = sent.filter(({ status }) => status >= 300);
  const scored = sent.some(({ path }) => path === '/api/public/scores');
  const isScored = !scored || (await rewarded(db, step?.episode_id));
  const fine =
    arrived.length === 1 && step?.agent === 'planner' && step.text === 'Far.' && refused.length === 0 && isScored;
  const found = arrived.map(({ agent, text }) => `${agent}: ${JSON.stringify(text)}`).join('; ') || 'no step arrived';
  const paths = [...new Set(sent.map(({ method, path, status }) => `${method} ${path} ${status}`))].join(', ');
  return [`${program}: ${found} (${sent.length} requests: ${paths})`, fine];
}

/** Whether the call of an episode has its reward. */
async function rewarded(db: Context['db'], episode: string | undefined): Promise<boolean> {
  const sql = `select value from traj.feedback where episode_id = $1 and name = 'reward' and target_kind = 'call'`;
  const { rows } = await db.query<{ value: number }>(sql, [episode ?? '']);
  return rows.length === 1 && rows[0]!.value === 1;
}

/** A request of a tracing client; one to the gateway, sent again, is another call of the model. */
const isTracing = ({ path }: Sent): boolean => !path.startsWith('/e/');

async function againChangesNothing({ db }: Context, server: string, sent: readonly Sent[]): Promise<Check> {
  await waitProjected(db);
  const before = await checksum(db);
  for (const one of [...sent].reverse()) await (await send(server, one)).arrayBuffer();
  await waitProjected(db);
  const after = await checksum(db);
  const changed = Object.keys(before.tables).filter(
    (name) => before.tables[name]!.sha256 !== after.tables[name]?.sha256,
  );
  const what = `all ${sent.length} requests sent again, the last first, change no table${changed.length > 0 ? `, but ${changed.join(', ')}` : ''}`;
  return [what, changed.length === 0];
}
