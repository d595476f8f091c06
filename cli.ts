#!/usr/bin/env node
/** The command line: the only place where the rooms are wired together. */
import { Command } from 'commander';
import { exitCodeOf } from './cli/command.ts';
import { addCommands } from './cli/commands.ts';
import { VERSION } from './cli/context.ts';
import { toleratePipes } from './cli/output.ts';

const EXAMPLES = `  troupe demo                                          watch a team of two get better
  troupe import results.json                           record what your agents did
  troupe sql "select avg(reward) from traj.episodes"   ask
  troupe up                                            API, page, projector, judge and trainer
`;

const program = new Command('troupe')
  .description('Records what a team of AI agents does together and turns it into better models for that team.')
  .version(VERSION)
  .option('--home <dir>', 'folder of the embedded database, datasets and checkpoints (TROUPE_HOME, .troupe)')
  .option('--project <name>', 'project: a database of its own (TROUPE_PROJECT, troupe)')
  .option('--database-url <url>', 'PostgreSQL server instead of the embedded one (DATABASE_URL)')
  .option('--json', 'one JSON document and nothing else on standard output')
  .option('--quiet', 'no progress')
  .showHelpAfterError('(troupe --help lists the commands)')
  .exitOverride()
  .addHelpText('before', `Examples:\n${EXAMPLES}`);

await addCommands(program, process.argv.slice(2));
for (const command of program.commands) {
  command.exitOverride();
  for (const inner of command.commands) inner.exitOverride();
}

toleratePipes();
try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error, { json: process.argv.includes('--json') });
}
