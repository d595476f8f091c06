/** Running: one process a role, all of them, the demo; and what an operator asks first. */
import { existsSync } from 'node:fs';
import { rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { loadConfig } from '../../config.ts';
import { countText, got, TroupeError } from '../../errors.ts';
import { type Home, homeAt } from '../../store/db/home.ts';
import { firstOf, query, rowsOf } from '../../store/db/query.ts';
import { type RoleFacts, roleSettings } from '../children.ts';
import {
  databaseCommand,
  type Flags,
  newest,
  number,
  plainCommand,
  processCommand,
  projectCommand,
  untilInterrupted,
  who,
  wholeNumber,
} from '../command.ts';
import type { Context } from '../context.ts';
import { hostedBy } from '../hosted.ts';
import { print, printJson, say, sayTo, table } from '../output.ts';
import type { ListenAt } from '../role.ts';
import { roleLogs } from '../role-logs.ts';
import { tracing } from '../tracing.ts';
import { checkpointsCommands } from './checkpoints.ts';

/** Ids that `jobs cancel` prints. */
const CANCELLED_SHOWN = 5;

/** The roles of `troupe run`. */
export const ROLE_NAMES = ['ingest', 'project', 'judge', 'work', 'infer', 'serve'];

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('run')
      .argument('<role>', ROLE_NAMES.join(', '))
      .option('--policy <name>', 'infer: the policy to serve')
      .option('--model <dir>', 'infer: the model to serve until the next release')
      .option(
        '--port <n>',
        'serve, ingest, infer: port to listen on, 0 for any free one; infer without it uses a Unix socket',
        wholeNumber('port'),
      )
      .option('--host <address>', 'serve, ingest, infer: address to listen on')
      .option('--address <url>', 'infer with --port: where others reach it, if not at its host and port')
      .option(
        '--metrics-port <n>',
        'port for /metrics, /healthz and /readyz of this process, 0 for any free one',
        wholeNumber('metrics-port'),
      )
      .addHelpText(
        'after',
        '\nEach process works alone on what the log and the tables hold; SIGTERM ends it well, and killing it loses nothing.\n\nExamples:\n  troupe run serve --port 7717\n  troupe run project\n  troupe run infer --policy solver\n  TROUPE_INFER_KEY=… troupe run infer --policy solver --host 10.0.0.5 --port 7800',
      ),
    async ([role], flags) => {
      if (!ROLE_NAMES.includes(role!)) {
        throw new TroupeError('usage', `There is no role ${role}; the roles are ${ROLE_NAMES.join(', ')}.`);
      }
      const [{ ROLES }, { withContext }] = await Promise.all([import('../roles.ts'), import('../context.ts')]);
      const run = ROLES[role!]!;
      await logAs(role!, flags.policy);
      (await import('../role-metrics.ts')).answerCounts();
      const options = {
        signal: untilInterrupted(),
        onReady: (facts: RoleFacts) => {
          if (flags.json) printJson(facts);
        },
        ...(flags.policy ? { policy: String(flags.policy) } : {}),
        ...(flags.model ? { model: String(flags.model) } : {}),
        ...(role === 'infer' ? { listen: listenAt(flags) } : {}),
      };
      // What only takes events into a log outside the database does so without it.
      const late = role === 'ingest' && loadConfig(flags, process.env).kafka_brokers !== null;
      const metricsPort = flags.metricsPort as number | undefined;
      await withContext(
        flags,
        (context) =>
          tracing(context.config, { role: role!, project: context.database.project }, () =>
            measured(context, { role: role!, port: metricsPort }, () => run(context, options)),
          ),
        {
          late,
        },
      );
    },
  );

  processCommand(
    program
      .command('up')
      .option('--port <n>', 'port of the API, 0 for any free one', wholeNumber('port'))
      .option(
        '--metrics-port <n>',
        'port for the metrics of all roles, 0 for any free one',
        wholeNumber('metrics-port'),
      )
      .addHelpText(
        'after',
        '\nExamples:\n  troupe up\n  troupe up --port 8080 --home /var/lib/troupe\n  troupe up --metrics-port 9100',
      ),
    async (context, _, flags) => {
      const { runUp } = await import('../up.ts');
      const { config } = context;
      await runUp(context, {
        settings: { ...roleSettings(config), logs: roleLogs(context.home.run, context.database.project) },
        port: config.port,
        host: config.host,
        ...(flags.metricsPort === undefined ? {} : { metricsPort: Number(flags.metricsPort) }),
        signal: untilInterrupted(),
        onReady: (url) => {
          say(`Troupe is up: ${url}/ · Ctrl-C ends it.`);
          if (flags.json) printJson({ url, project: context.database.project });
        },
      });
    },
  );

  plainCommand(
    program
      .command('demo')
      .option('--rounds <n>', 'rounds of reinforcement learning', wholeNumber('rounds'), 3)
      .option('--seed <n>', 'random seed', wholeNumber('seed'), 0)
      .addOption(
        new Option('--scale <x>', 'share of the tasks and steps, for a quick check of the setup')
          .argParser(number('scale'))
          .hideHelp(),
      )
      .addHelpText(
        'after',
        '\nExamples:\n  troupe demo\n  troupe demo --rounds 6 --seed 1\n  troupe demo --json > result.json',
      ),
    async (_, flags) => (await import('../demo.ts')).demo(flags),
  );

  projectCommand(
    program
      .command('release')
      .argument('<policy=checkpoint...>', 'such as team=ab12cd34ef56ab78, or team=upstream:MODEL')
      .option('--reason <text>', 'reason to record')
      .addHelpText(
        'after',
        '\nProcesses that serve the policies switch within a second. troupe rollback restores the previous release. With upstream:MODEL the model that\nthe route of the policy falls back to answers again.\n\nExamples:\n  troupe release solver=ab12cd34ef56ab78 --reason "better on held-out tasks"\n  troupe sql "select policy, checkpoint_id, reason from traj.releases order by released_at"',
      ),
    async ({ db, log, now, catchUp, config, home }, pairs, flags) => {
      const { inReleaseTurn, recordAfterHosted, releaseId } = await import('../../store/releasing/releases.ts');
      const { hostedModel } = await import('../../store/rollouts/weights.ts');
      await catchUp();
      const policies = Object.fromEntries(pairs.map(policyAndCheckpoint));
      const hosted = hostedBy(config);
      for (const [policy, id] of Object.entries(policies)) {
        const model = hostedModel(id);
        if (model !== null) {
          if (hosted[policy] === model) continue;
          const found = hosted[policy] === undefined ? 'none has a fallback' : `it is ${hosted[policy]}`;
          throw new TroupeError('not_found', `${model} is not what a route of ${policy} falls back to: ${found}.`);
        }
        const stored = query
          .selectFrom('facts.checkpoints')
          .select('uri')
          .where('checkpoint_id', '=', id)
          .where('uri', 'is not', null);
        if ((await firstOf(db, stored)) === undefined)
          throw new TroupeError(
            'not_found',
            `There is no checkpoint ${id} for ${policy}; \`troupe checkpoints\` lists them.`,
            existsSync(id)
              ? { hint: `It is a folder: troupe checkpoints add ${id} --policy ${policy} records it and names its id.` }
              : existsSync(join(home.checkpoints, id))
                ? { hint: `troupe checkpoints add ${join(home.checkpoints, id)} --policy ${policy} records it.` }
                : {
                    hint: `One that was trained by hand is recorded by troupe checkpoints add FOLDER --policy ${policy}.`,
                  },
          );
      }
      const at = now().toISOString();
      const release_id = releaseId(policies, at);
      const reason = (flags.reason as string | undefined) ?? null;
      const release = { release_id, policies, reason, by: 'cli', source: '/cli', time: at };
      await inReleaseTurn(db, async () => {
        await catchUp();
        await recordAfterHosted({ db, log }, hosted, release, 'usage');
      });
      await catchUp();
      if (flags.json) printJson({ release_id, policies });
      else
        print(
          `Released: ${Object.entries(policies)
            .map(([p, c]) => `${p} → ${c}`)
            .join(', ')}`,
        );
    },
  );

  checkpointsCommands(program);

  const jobs = program
    .command('jobs')
    .option('--limit <n>', 'maximum number of rows', wholeNumber('limit'), 20)
    .addHelpText(
      'after',
      '\nExamples:\n  troupe jobs --limit 5\n  troupe jobs cancel schedule/nightly/2026-11-24T02:00:00Z --reason "wrong dataset"',
    );
  projectCommand(
    jobs
      .command('cancel')
      .description('cancel a queued or running job and its children; nothing it still produces is published')
      .argument('<job>', 'its id')
      .option('--reason <text>', 'reason to record')
      .option('--by <who>', 'who cancels it (default: the user of this machine)')
      .addHelpText(
        'after',
        '\nA worker that runs the job stops within seconds, a training run after its current step.\n\nExample:\n  troupe jobs cancel schedule/nightly/2026-11-24T02:00:00Z --reason "wrong dataset"',
      ),
    async (context, [id], flags) => {
      const { cancelJob } = await import('../../store/jobs/jobs.ts');
      const reason = flags.reason === undefined ? null : String(flags.reason);
      const cancelled = await cancelJob(context, id!, { by: who(flags), reason });
      await context.catchUp();
      if (flags.json) printJson({ cancelled });
      else {
        // Of a rollout thousands of attempts end with it.
        const shown = cancelled.slice(0, CANCELLED_SHOWN).join(', ');
        const more = cancelled.length - CANCELLED_SHOWN;
        print(`Cancelled: ${shown}${more > 0 ? ` and ${countText(more, 'part')} more; --json lists all` : ''}`);
      }
    },
  );
  databaseCommand(jobs, async (context, _, flags) => {
    const { waitsForTraining } = await import('../training-turn.ts');
    const waitsFor = await waitsForTraining(context);
    const read = await rowsOf(
      context.db,
      query
        .selectFrom('traj.jobs')
        .select(['job_id', 'kind', 'state', 'outcome', 'requested_at', 'finished_at', 'error'])
        .orderBy('requested_at', (order) => order.desc().nullsLast())
        .limit((flags.limit as number) + 1),
    );
    const found = newest(read, flags, 'job');
    const rows = found.rows.map((row) => ({ ...row, waits_for: waitsFor(row) }));
    if (flags.json) printJson({ jobs: rows, truncated: found.truncated });
    else
      print(
        rows.length === 0
          ? 'No jobs yet.'
          : table(
              ['job', 'kind', 'state', 'outcome', 'requested', 'waits for', 'error'],
              rows.map((r) => [r.job_id, r.kind, r.state, r.outcome, r.requested_at, r.waits_for, r.error]),
            ),
      );
  });

  plainCommand(
    program
      .command('doctor')
      .addOption(
        new Option('--role <role>', 'check only whether a process of this role runs on this machine').choices(
          ROLE_NAMES,
        ),
      )
      .addHelpText('after', '\nExamples:\n  troupe doctor --json\n  troupe doctor --role judge'),
    async (_, flags) => (await import('../doctor.ts')).doctor(flags),
  );

  plainCommand(
    program
      .command('reset')
      .option('--yes', 'do not ask for confirmation')
      .addHelpText(
        'after',
        '\nIt refuses while anything works on the home.\n\nExample:\n  troupe reset --yes --home ./trial',
      ),
    async (_, flags) => {
      const home = homeAt(loadConfig(flags, process.env).home);
      const there = existsSync(home.root);
      if (there && !flags.yes)
        throw new TroupeError(
          'usage',
          `This would remove everything Troupe stores in ${home.root}. Pass --yes to confirm.`,
        );
      if (there) await removeHome(home);
      if (flags.json) printJson({ home: home.root, removed: there });
      else print(there ? `Removed everything Troupe stored in ${home.root}.` : `There is no home at ${home.root}.`);
    },
  );
}

/** Where `infer` listens for other machines; undefined for a Unix socket. */
function listenAt({ port, address }: Flags): ListenAt | undefined {
  if (port === undefined) {
    if (address === undefined) return undefined;
    throw new TroupeError('usage', '--address is where a process with --port is reached; name the port too.');
  }
  return { port: Number(port), ...(address === undefined ? {} : { address: String(address) }) };
}

/** Runs the role; its numbers can be asked of the port, if one is given, from before it works until it ends. */
async function measured(
  context: Context,
  { role, port }: { readonly role: string; readonly port: number | undefined },
  run: () => Promise<void>,
): Promise<void> {
  if (port === undefined) return run();
  const [{ serveMetrics }, { databaseMetrics, prometheusText }, { processMetrics }] = await Promise.all([
    import('../metrics-server.ts'),
    import('../../api/metrics.ts'),
    import('../../api/prometheus.ts'),
  ]);
  const metrics = async () => prometheusText(await databaseMetrics(context.db)) + (await processMetrics());
  const server = await serveMetrics(context, { role, port, metrics });
  say(`Metrics at ${server.url}/metrics`);
  return run().finally(server.close);
}

/** A person at a terminal reads sentences; whatever else takes the output of a process gets JSON Lines. */
async function logAs(role: string, policy: unknown): Promise<void> {
  const { nameLog, processLog } = await import('../../api/log.ts');
  nameLog({ role, ...(policy === undefined ? {} : { policy: String(policy) }) });
  if (process.stderr.isTTY !== true) sayTo((text, level) => processLog()[level](text));
}

function policyAndCheckpoint(pair: string): [policy: string, checkpoint: string] {
  const [, policy, id] = /^([^=]+)=(.+)$/.exec(pair) ?? [];
  if (policy !== undefined && id !== undefined) return [policy, id];
  throw new TroupeError('usage', `${got(pair)} should be POLICY=CHECKPOINT, such as solver=ab12cd34ef56ab78.`);
}

/** How long an embedded server outlives its last user, and a little. */
const LINGER_MS = 2600;

/** Only what Troupe put there: the folder may hold something else. */
async function removeHome(home: Home): Promise<void> {
  const [{ isServing }, { removeCluster }] = await Promise.all([
    import('../../store/db/share.ts'),
    import('../../store/db/cluster.ts'),
  ]);
  for (let looks = 1; await isServing(home); looks++) {
    if (looks === 3) {
      throw new TroupeError(
        'busy',
        `The home ${home.root} is in use; stop what runs on it (troupe up, run, demo) first.`,
      );
    }
    // Looking makes us a user for a moment, so the server's last breath begins anew.
    await new Promise((resolve) => setTimeout(resolve, LINGER_MS));
  }
  removeCluster(home.data);
  for (const folder of [home.datasets, home.checkpoints, home.artifacts, home.archives, home.sealed, home.run])
    await rm(folder, { recursive: true, force: true });
  await rmdir(home.root).catch(() => {});
}
