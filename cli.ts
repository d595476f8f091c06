#!/usr/bin/env node
/** The command line: the only place where the rooms are wired together. */
import { Command } from 'commander';
import { exitCodeOf } from './cli/command.ts';
import { askCommands } from './cli/commands/ask.ts';
import { judgeCommands } from './cli/commands/judge.ts';
import { learnCommands } from './cli/commands/learn.ts';
import { recordCommands } from './cli/commands/record.ts';
import { runCommands } from './cli/commands/run.ts';
import { VERSION } from './cli/context.ts';

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
  .addHelpText(
    'after',
    '\nExamples:\n  troupe demo                                   watch a team of two get better\n  troupe import results.json                    record what your agents did\n  troupe sql "select avg(reward) from traj.episodes"\n  troupe up                                     API, page, projector, judge and trainer',
  );

recordCommands(program);
askCommands(program);
judgeCommands(program);
learnCommands(program);
runCommands(program);
for (const command of program.commands) {
  command.exitOverride();
  for (const inner of command.commands) inner.exitOverride();
}

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
}
