/** The role `infer`: one policy, served over a Unix socket to this machine, or over HTTP with a key to others. */
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, join } from 'node:path';
import { hostedBy } from '../../api/gateway/hosted.ts';
import type { ServerWatch } from '../../api/gateway/upstream/server-watch.ts';
import { observe } from '../../api/health/prometheus.ts';
import type { Config } from '../../config.ts';
import { got, TroupeError } from '../../errors.ts';
import { onNotify } from '../../store/db/notifications.ts';
import { pathHere, query, rowsOf } from '../../store/db/query.ts';
import { type Weights, weightsAtPlay } from '../../store/loop/play/weights.ts';
import { givenTo, type ReleaseInput } from '../../store/loop/release/releases.ts';
import { JOB_CHANNEL } from '../../store/queue/jobs/jobs.ts';
import { registerProcess, reportModels } from '../../store/queue/jobs/processes.ts';
import type { Home } from '../../store/server/home.ts';
import { socketFolder } from '../../store/server/sockets.ts';
import type { InferServer } from '../../trainer/sample/infer.ts';
import type { LoadPolicy } from '../../trainer/sample/infer-batches.ts';
import { modelOfCheckpoint } from '../../trainer/sample/infer-wire.ts';
import type { Context } from '../context.ts';
import { say, troubleReporter } from '../output.ts';
import { inferSocketName, LONGEST_SOCKET_NAME } from './infer-socket.ts';
import { processId } from './process-id.ts';
import type { ListenAt, RoleOptions } from './role.ts';

/** A process that serves a policy looks at least this often for a release. */
const FOLLOW_MS = 500;

/**
 * Serves one policy: with the model that it is given to begin with, else with the checkpoint that was released last, or saved last where no
 * route falls back to another server's model, which answers until the first release. Then with every later release, and with nothing while one
 * gives the policy such a model; only where a client has it load something else does it leave the choice to that client.
 */
export async function infer(
  { db, home, config }: Context,
  { policy, model, listen, signal, onReady }: RoleOptions,
): Promise<void> {
  if (policy === undefined) {
    throw new TroupeError('usage', 'Missing --policy NAME: troupe run infer --policy NAME [--model DIR].');
  }
  const { loadPolicy, watch } = await outside(config, policy);
  const { server, address } = listen
    ? await overHttp(config, listen, loadPolicy)
    : await overSocket(home, config, policy, loadPolicy);
  try {
    const served = () => server.status().models.find(({ name }) => name === policy);
    let ours: string | undefined;
    const speakWith = async (dir: string): Promise<void> => {
      await server.load({ dir: placeOf(dir, home), name: policy });
      ours = served()?.dir;
    };
    const beside = besideModels(server, { policy, home });
    let released = await givenTo(db, policy);
    if (model !== undefined) await speakWith(model);
    else {
      const saved =
        released?.directory === null || policy in hostedBy(config) ? [] : await savedCheckpoints(db, policy);
      await speakWithFirst([...(released?.directory ? [released.directory] : []), ...saved], speakWith);
      // Its files may come to this machine later.
      if (served()?.checkpoint !== released?.checkpoint_id) released = null;
    }
    const id = processId('infer');
    // A server that is gone serves nothing, whatever was loaded into it.
    const models = () => (watch === null || watch.answers() ? server.status().models : []);
    const leave = await registerProcess(db, { processId: id, role: 'infer', policy, address, models });
    say(`Policy ${policy} is served at ${address}`);
    onReady({ role: 'infer', address });
    let reported = '';
    const report = async (): Promise<void> => {
      const now = JSON.stringify(models());
      if (now !== reported) await reportModels(db, id, models());
      reported = now;
    };
    let missed = '';
    /** Whether a release could be loaded; one whose files are not there is looked for again. */
    const loads = async ({ checkpoint_id, directory }: ReleaseInput): Promise<boolean> => {
      if (directory === null) {
        server.unload(policy);
        return true;
      }
      try {
        await speakWith(directory);
        return true;
      } catch (error) {
        if ((error as TroupeError).code !== 'not_found') throw error;
        if (missed !== checkpoint_id)
          say(
            `${checkpoint_id} was released for ${policy}, but is neither at ${directory} nor in ${home.checkpoints}.`,
          );
        missed = checkpoint_id;
        return false;
      }
    };
    const follow = async (): Promise<false> => {
      const now = await givenTo(db, policy).catch(() => released);
      const isOurs = model === undefined || served()?.dir === ours;
      const follows = now !== null && now.checkpoint_id !== released?.checkpoint_id && isOurs;
      const atPlay = await weightsAtPlay(db, policy).catch(() => null);
      // What is played with is there before a release takes its place, and goes only after it.
      if (atPlay) await beside.load(atPlay, follows ? now.checkpoint_id : null);
      if (!follows || (await loads(now))) {
        if (atPlay) beside.drop(atPlay);
        released = now;
      }
      await report();
      return false;
    };
    // A rollout that begins notifies this process: its weights are loaded at once.
    await onNotify(
      db,
      JOB_CHANNEL,
      { signal, pollMs: FOLLOW_MS, onTrouble: troubleReporter('Following releases') },
      follow,
    );
    await leave();
  } finally {
    watch?.close();
    // Also where the model cannot be loaded: a socket that listens would keep the process.
    await server.close();
  }
}

/** The models that a process has beside the one that its policy serves: those that rollouts play with. */
function besideModels(server: InferServer, { policy, home }: { readonly policy: string; readonly home: Home }) {
  const names = new Set<string>();
  const failed = new Set<string>();
  return {
    /** Loads those that are not there. `next` is what the policy serves soon; null: what it serves now. */
    async load(wanted: readonly Weights[], next: string | null): Promise<void> {
      const served = next ?? server.status().models.find(({ name }) => name === policy)?.checkpoint;
      for (const { checkpoint_id, directory } of wanted) {
        const name = modelOfCheckpoint(checkpoint_id);
        if (checkpoint_id === served || names.has(name) || failed.has(name)) continue;
        try {
          await server.load({ dir: placeOf(directory, home), name });
          names.add(name);
        } catch (error) {
          failed.add(name);
          say(`No rollout can play with ${directory}: ${error instanceof Error ? error.message : error}`);
        }
      }
    },
    /** Drops those that are not wanted any more. */
    drop(wanted: readonly Weights[]): void {
      const kept = new Set(wanted.map(({ checkpoint_id }) => modelOfCheckpoint(checkpoint_id)));
      for (const name of failed) if (!kept.has(name)) failed.delete(name);
      for (const name of names) {
        if (kept.has(name)) continue;
        names.delete(name);
        server.unload(name);
      }
    },
  };
}

/** Live weights may be gone from the disk: the first that is there is taken, and none is no error, for one may be loaded later. */
async function speakWithFirst(
  directories: readonly string[],
  speakWith: (dir: string) => Promise<unknown>,
): Promise<void> {
  for (const directory of directories) {
    try {
      await speakWith(directory);
      return;
    } catch (error) {
      if ((error as TroupeError).code !== 'not_found') throw error;
    }
  }
}

async function savedCheckpoints(db: Context['db'], policy: string): Promise<string[]> {
  const saved = await rowsOf(
    db,
    query
      .selectFrom('facts.checkpoints')
      .select(pathHere('uri').as('directory'))
      .where('policy', '=', policy)
      .where('uri', 'is not', null)
      .orderBy('version', 'desc')
      .limit(20),
  );
  return saved.map(({ directory }) => directory);
}

/** What asks the server of the setting `upstreams` that has the weights of the policy, and watches it; nulls where this process has them. */
async function outside({ upstreams }: Config, policy: string): Promise<Outside> {
  const [{ readUpstreams }, { outsidePolicies }, { watchServer }] = await Promise.all([
    import('../../api/gateway/upstream/settings.ts'),
    import('../../api/gateway/upstream/outside-policy.ts'),
    import('../../api/gateway/upstream/server-watch.ts'),
  ]);
  const found = readUpstreams(upstreams, process.env).find(({ policies }) => policies.includes(policy));
  if (found === undefined) return { loadPolicy: null, watch: null };
  say(`The weights of ${policy} are those of the server ${found.name} at ${found.baseUrl}.`);
  const loadPolicy = outsidePolicies(found);
  const watch = watchServer(found, (why) => {
    if (why === null) say(`The server ${found.name} of policy ${policy} answers again.`);
    else say(`The server ${found.name} of policy ${policy} does not answer: ${why}`, 'warn');
  });
  return { loadPolicy, watch };
}

type Outside = { readonly loadPolicy: LoadPolicy | null; readonly watch: ServerWatch | null };

type Listening = { readonly server: InferServer; readonly address: string };

/** For this machine: all processes of a home that sample have their sockets in one folder. */
async function overSocket(
  home: Home,
  { threads }: Config,
  policy: string,
  loadPolicy: LoadPolicy | null,
): Promise<Listening> {
  const [{ startInfer }, { Policy }] = await Promise.all([
    import('../../trainer/sample/infer.ts'),
    import('../../trainer/sample/policy.ts'),
  ]);
  const name = inferSocketName(policy, hostname(), process.pid);
  const socket = join(socketFolder(home.run, 'infer'.padEnd(LONGEST_SOCKET_NAME, '-')), name);
  const server = await startInfer({ socket, threads, onReply: observe.infer }, loadPolicy ?? Policy.load);
  return { server, address: socket };
}

/** For other machines. @throws TroupeError `config_invalid` without a key, or without an address that others can call */
async function overHttp(
  { threads, host, infer_key: key }: Config,
  { port, address }: ListenAt,
  loadPolicy: LoadPolicy | null,
): Promise<Listening> {
  if (key === null)
    throw new TroupeError(
      'config_invalid',
      'run infer --port lets other machines ask, which needs a key: set TROUPE_INFER_KEY to the same value here, for serve, and for nobody else. Make one with: openssl rand -hex 32.',
      { field: 'infer_key' },
    );
  if (address === undefined && ['0.0.0.0', '::'].includes(host))
    throw new TroupeError(
      'config_invalid',
      `Other machines cannot call ${host}; name the address of this one with --host, or with --address URL.`,
      { field: 'host', got: host },
    );
  if (address !== undefined && !/^https?:\/\/[^/]+\/?$/.test(address))
    throw new TroupeError(
      'config_invalid',
      `--address should be a URL without a path, such as http://10.0.0.5:7800, but it is ${got(address)}.`,
      { field: 'address', got: address },
    );
  const [{ startInferHttp }, { Policy }] = await Promise.all([
    import('../../trainer/sample/infer-http.ts'),
    import('../../trainer/sample/policy.ts'),
  ]);
  const server = await startInferHttp({ host, port, key, threads, onReply: observe.infer }, loadPolicy ?? Policy.load);
  const name = host.includes(':') ? `[${host}]` : host;
  return { server, address: address ?? `http://${name}:${server.port}` };
}

/** A checkpoint where its event says, else below the checkpoints of this home: on another machine it may have been brought there. */
function placeOf(dir: string, { checkpoints }: Home): string {
  const here = join(checkpoints, basename(dir));
  return !existsSync(dir) && existsSync(here) ? here : dir;
}
