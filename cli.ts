#!/usr/bin/env node
/** The command line: the only place where the layers are wired together. */
import { Command } from 'commander';
import { exitCodeOf } from './cli/command.ts';
import { addCommands } from './cli/commands.ts';
import { toleratePipes } from './cli/output.ts';
import { VERSION } from './cli/version.ts';

const EXAMPLES = `  troupe demo                                          watch a team of two get better
  troupe import results.json                           record what your agents did
  troupe sql "select avg(reward) from traj.episodes"   query it
  troupe up                                            run the API, the web page and all processes
`;

const program = new Command('troupe')
  .description('Records what a team of AI agents does together, and trains better models for that team.')
  .version(VERSION)
  .option('--home <dir>', 'folder of the embedded database, datasets and checkpoints (TROUPE_HOME, .troupe)')
  .option('--project <name>', 'project: a database of its own (TROUPE_PROJECT, troupe)')
  .option('--database-url <url>', 'PostgreSQL server instead of the embedded one (DATABASE_URL)')
  .option('--json', 'print one JSON document and nothing else on standard output')
  .option('--quiet', 'print no progress')
  .commandsGroup('Help:')
  .showHelpAfterError('(troupe --help lists the commands)')
  .exitOverride()
  .addHelpText('before', `Examples:\n${EXAMPLES}`)
  .addHelpText('after', '\ntroupe COMMAND --help shows examples of a command. Documentation: README.md and docs/');

toleratePipes();
try {
  await addCommands(program, process.argv.slice(2));
  await program.parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error, { json: process.argv.includes('--json') });
}
