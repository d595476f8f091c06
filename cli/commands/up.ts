/** `troupe up`: all processes of a project. */
import type { Command } from 'commander';
import { standingMethods } from '../../api/operations/judge/methods.ts';
import { loadConfig } from '../../config.ts';
import { processCommand, untilInterrupted, wholeNumber } from '../command.ts';
import { answer, say } from '../output.ts';
import { roleSettings } from '../processes/children.ts';
import { roleLogs } from '../processes/role-logs.ts';

export function addTo(program: Command): void {
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
      const { runUp } = await import('../processes/up.ts');
      const { config } = context;
      await runUp(context, {
        settings: { ...roleSettings(config), logs: roleLogs(context.home.run, context.database.project) },
        port: config.port,
        host: config.host,
        ...(flags.metricsPort === undefined ? {} : { metricsPort: Number(flags.metricsPort) }),
        signal: untilInterrupted(),
        onReady: (url) => {
          say(`Troupe is up: ${url}/ · Ctrl-C ends it.`);
          answer(flags, { url, project: context.database.project }, '');
        },
      });
    },
    // A role that cannot run would end the others after they have started.
    async (flags) => standingMethods(loadConfig(flags, process.env).judge),
  );
}
