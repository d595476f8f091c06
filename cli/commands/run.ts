/** `troupe run`: one process of Troupe. */
import type { Command } from 'commander';
import { loadConfig } from '../../config.ts';
import { TroupeError } from '../../errors.ts';
import { type Flags, plainCommand, untilInterrupted, wholeNumber } from '../command.ts';
import type { Context } from '../context.ts';
import { answer, say, sayTo } from '../output.ts';
import type { RoleFacts } from '../processes/children.ts';
import type { ListenAt } from '../processes/role.ts';
import { ROLE_NAMES } from '../processes/role-names.ts';
import { tracing } from '../processes/tracing.ts';

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
      const [{ ROLES }, { withContext }] = await Promise.all([
        import('../processes/roles.ts'),
        import('../context.ts'),
      ]);
      const run = ROLES[role!]!;
      await logAs(role!, flags.policy);
      (await import('../processes/role-metrics.ts')).answerCounts();
      const options = {
        signal: untilInterrupted(),
        onReady: (facts: RoleFacts) => answer(flags, facts, ''),
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
    import('../processes/metrics-server.ts'),
    import('../../api/health/metrics.ts'),
    import('../../api/health/prometheus.ts'),
  ]);
  const metrics = async () => prometheusText(await databaseMetrics(context.db)) + (await processMetrics());
  const server = await serveMetrics(context, { role, port, metrics });
  say(`Metrics at ${server.url}/metrics`);
  return run().finally(server.close);
}

/** A person at a terminal reads sentences; whatever else takes the output of a process gets JSON Lines. */
async function logAs(role: string, policy: unknown): Promise<void> {
  const { nameLog, processLog } = await import('../../api/http/log.ts');
  nameLog({ role, ...(policy === undefined ? {} : { policy: String(policy) }) });
  if (process.stderr.isTTY !== true) sayTo((text, level) => processLog()[level](text));
}
