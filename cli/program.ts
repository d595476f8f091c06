/** The program that `troupe` is: its options, its help and its commands. */
import { Command } from 'commander';
import { exitCodeOf } from './command.ts';
import { addCommands } from './commands.ts';
import { VERSION } from './version.ts';

const EXAMPLES = `  troupe demo                                          watch a team of two get better
  troupe import results.json                           record what your agents did
  troupe sql "select avg(reward) from traj.episodes"   query it
  troupe up                                            run the API, the web page and all processes
`;

/** A query that begins with a comment is no option: with a blank before it it is read as what it is. */
const withoutComment = (arg: string): string => (/^--(?:\s|[^=\n]*\n)/.test(arg) ? ` ${arg}` : arg);

/** Runs one command line, `args` without the program's name. Sets the exit code of the process. */
export async function runProgram(args: readonly string[]): Promise<void> {
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

  try {
    await addCommands(program, args);
    await program.parseAsync(args.map(withoutComment), { from: 'user' });
  } catch (error) {
    process.exitCode = exitCodeOf(error, { json: args.includes('--json') });
  }
}
