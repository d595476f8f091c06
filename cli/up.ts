/** Everything at once: a process for each role, one more for each policy that was released, started again when one dies. */
import { TroupeError } from '../errors.ts';
import { addressOf, type Child, type RoleSettings, startRole } from './children.ts';
import type { Context } from './context.ts';
import { say } from './output.ts';

export type UpOptions = {
  readonly settings: RoleSettings;
  readonly port: number;
  readonly host: string;
  readonly signal: AbortSignal;
  readonly onReady: (url: string) => void;
};

const LOOK_MS = 3000;
/** A policy whose weights cannot be loaded must not take the others down; it is tried again after this. */
const RETRY_MS = 30_000;

/** Runs until the signal; then stops all. @throws TroupeError with the last words of a process that cannot live. */
export async function runUp({ db }: Context, { settings, port, host, signal, onReady }: UpOptions): Promise<void> {
  const children = new Set<Child>();
  let failure: TroupeError | null = null;
  let wake: () => void = () => {};
  const fail = (error: TroupeError) => {
    failure ??= error;
    wake();
  };
  signal.addEventListener('abort', () => wake());

  const start = (
    role: string,
    more: readonly string[],
    onDeath: (error: TroupeError, worked: boolean) => void,
  ): Child => {
    const began = performance.now();
    const child = startRole(role, settings, more, async (error) => {
      children.delete(child);
      if (signal.aborted) return;
      const worked = await registered(db, child, performance.now() - began).catch(() => false);
      onDeath(error, worked);
    });
    children.add(child);
    return child;
  };
  const keep = (role: string, more: readonly string[] = []): Child =>
    start(role, more, (error, worked) => {
      // One that never came to work would not the next time either: its fault is told instead.
      if (!worked) return fail(error);
      say(`${error.message}\n  It is started again.`);
      keep(role, more);
    });

  /** When a policy's process may be started; absent for one never seen, infinite while it runs. */
  const speaking = new Map<string, number>();
  const speak = (policy: string) => {
    speaking.set(policy, Number.POSITIVE_INFINITY);
    start('infer', ['--policy', policy], (error, worked) => {
      say(`${error.message}\n  Policy ${policy} does not speak until it is started again.`);
      speaking.set(policy, worked ? 0 : performance.now() + RETRY_MS);
    });
  };

  const sleep = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
      if (failure || signal.aborted) wake();
    });

  try {
    // The one that can fail for what the user said (a port that is taken) comes first.
    const serving = keep('serve', ['--host', host, '--port', String(port)]);
    for (const role of ['project', 'judge', 'work']) keep(role);
    const stopped = () => failure ?? (signal.aborted ? new TroupeError('interrupted', 'It was stopped.') : null);
    const url = await addressOf(db, serving, stopped).catch((error) => {
      if (signal.aborted) return null;
      throw error;
    });
    if (url !== null) onReady(url);
    while (!stopped()) {
      const { rows } = await db
        .query<{ policy: string }>('select distinct policy from traj.releases')
        .catch(() => ({ rows: [] }));
      for (const { policy } of rows) if ((speaking.get(policy) ?? 0) <= performance.now()) speak(policy);
      await sleep(LOOK_MS);
    }
    if (failure) throw failure;
  } finally {
    await Promise.all([...children].map((child) => child.stop()));
  }
}

/** Whether a process came so far as to register; a process with the same number that ran before does not count. */
async function registered(db: Context['db'], { process }: Child, livedMs: number): Promise<boolean> {
  const { rows } = await db.query(
    'select 1 from troupe.processes where pid = $1 and started_at > clock_timestamp() - make_interval(secs => $2)',
    [process.pid, livedMs / 1000 + 1],
  );
  return rows.length > 0;
}
