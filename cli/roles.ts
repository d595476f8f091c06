/**
 * One process a role. They meet only in the log and the tables; killing any of them loses nothing: each resumes from its position, its
 * claim or its checkpoint.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { buildApp } from '../api/app.ts';
import { serve } from '../api/serve.ts';
import { registeredSpeakers } from '../api/speakers.ts';
import { TroupeError } from '../errors.ts';
import { storeHandlers } from '../store/handlers.ts';
import { runJobs } from '../store/jobs.ts';
import { registerProcess } from '../store/processes.ts';
import { runProjector } from '../store/projector.ts';
import { trainerHandlers } from '../trainer/handlers.ts';
import { startInfer } from '../trainer/infer.ts';
import { connectInfer } from '../trainer/infer-client.ts';
import { Policy } from '../trainer/policy.ts';
import { type Context, VERSION } from './context.ts';
import { say } from './output.ts';

export type RoleOptions = { readonly policy?: string; readonly model?: string; readonly signal: AbortSignal };
type Role = (context: Context, options: RoleOptions) => Promise<void>;

export const ROLES: Readonly<Record<string, Role>> = {
  ingest: (context, options) => answer(context, options, true),
  serve: (context, options) => answer(context, options, false),
  project: async ({ db }, { signal }) => {
    const leave = await registerProcess(db, { processId: processId('project'), role: 'project' });
    await runProjector(db, { signal });
    await leave();
  },
  judge: (context, { signal }) =>
    working(
      context,
      'judge',
      storeHandlers(context, { datasets: context.home.datasets, codeVersion: VERSION }),
      signal,
    ),
  work: (context, { signal }) =>
    working(
      context,
      'work',
      trainerHandlers(context, {
        checkpoints: context.home.checkpoints,
        threads: context.config.threads,
        codeVersion: VERSION,
      }),
      signal,
    ),
  infer,
};

async function answer(context: Context, { signal }: RoleOptions, ingestOnly: boolean): Promise<void> {
  const { db, log, book, artifacts, config } = context;
  const speakers = registeredSpeakers(db, connectInfer);
  const app = await buildApp({
    db,
    log,
    book,
    artifacts,
    speakers,
    project: context.database.project,
    version: VERSION,
    ingestOnly,
  });
  const { url, close } = await serve(app, { host: config.host, port: config.port });
  const role = ingestOnly ? 'ingest' : 'serve';
  const leave = await registerProcess(db, { processId: processId(role), role, address: url });
  say(`Troupe answers at ${url}`);
  await untilAborted(signal);
  await close();
  await leave();
}

async function working(
  context: Context,
  role: string,
  handlers: Parameters<typeof runJobs>[1]['handlers'],
  signal: AbortSignal,
): Promise<void> {
  const id = processId(role);
  const leave = await registerProcess(context.db, { processId: id, role });
  await runJobs(context, { worker: id, handlers, signal });
  await leave();
}

/** Speaks for one policy: with the checkpoint that was released or trained last, and with every later release. */
async function infer({ db, home, config }: Context, { policy, model, signal }: RoleOptions): Promise<void> {
  if (policy === undefined)
    throw new TroupeError('usage', 'Which policy shall speak? Say: troupe run infer --policy NAME [--model DIR].');
  const socket = join(home.run, `infer-${policy.slice(0, 24)}-${process.pid}.sock`);
  const server = await startInfer({ socket, threads: config.threads }, (modelConfig, weights, options) =>
    Policy.load(modelConfig, weights, options),
  );
  let spoken: string | null = null;
  const speakWith = async (dir: string, id: string) => {
    await server.load({ dir, name: policy });
    spoken = id;
  };
  const first = model ?? (await newest(db, policy))?.uri;
  if (first) await speakWith(first, model ? first : first);
  const leave = await registerProcess(db, { processId: processId('infer'), role: 'infer', policy, address: socket });
  let released = await releasedCheckpoint(db, policy);
  while (!signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    const now = await releasedCheckpoint(db, policy).catch(() => released);
    if (now && now.checkpoint_id !== released?.checkpoint_id && now.uri !== spoken) await speakWith(now.uri, now.uri);
    released = now ?? released;
  }
  await server.close();
  await leave();
}

type Known = { readonly checkpoint_id: string; readonly uri: string };

async function newest(db: Context['db'], policy: string): Promise<Known | null> {
  const { rows } = await db.query<Known>(
    `select checkpoint_id, uri from facts.checkpoints where policy = $1 and uri is not null order by version desc limit 1`,
    [policy],
  );
  return rows[0] ?? null;
}

async function releasedCheckpoint(db: Context['db'], policy: string): Promise<Known | null> {
  const { rows } = await db.query<Known>(
    `select c.checkpoint_id, c.uri from facts.releases r join facts.checkpoints c on c.checkpoint_id = r.policies ->> $1
     where c.uri is not null order by r.version desc limit 1`,
    [policy],
  );
  return rows[0] ?? null;
}

const processId = (role: string): string => `${role}-${process.pid}-${randomBytes(3).toString('hex')}`;

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
