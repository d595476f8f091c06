/** Projects: each is a database of its own on the configured server, or on the embedded one of the home. */
import type { Command } from 'commander';
import { loadConfig } from '../../config.ts';
import { listProjects, openDatabase } from '../../store/db/database.ts';
import { plainCommand } from '../command.ts';
import { serverOf } from '../database.ts';
import { print, printJson } from '../output.ts';

export function addTo(program: Command): void {
  const project = program
    .command('project')
    .addHelpText('after', '\nExamples:\n  troupe project create airline\n  troupe project list');

  plainCommand(
    project
      .command('create')
      .description('create a project; one that exists is left as it is')
      .argument('<name>', 'a letter, then up to 47 letters, digits, "_" or "-"')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe project create airline\n  troupe --project airline import results.json',
      ),
    async ([name], flags) => {
      const server = serverOf(loadConfig(flags, process.env));
      const existed = (await listProjects(server)).includes(name!);
      await (await openDatabase({ ...server, project: name!, applicationName: 'troupe' })).close();
      if (flags.json) printJson({ project: name, created: !existed });
      else
        print(existed ? `Project ${name} exists already.` : `Project ${name} created. Use it with --project ${name}.`);
    },
  );

  plainCommand(
    project
      .command('list')
      .description('list projects')
      .addHelpText('after', '\nExample:\n  troupe project list --json'),
    async (_, flags) => {
      const projects = await listProjects(serverOf(loadConfig(flags, process.env)));
      if (flags.json) printJson({ projects });
      else
        print(
          projects.length === 0 ? 'No projects yet. The first is created by the first import.' : projects.join('\n'),
        );
    },
  );
}
