/** Runs a command that lasts, and writes the process id of what that starts to the file it is given. To be killed. */
import { runCommand } from '../../../trainer/loop/play/command.ts';

await runCommand(['sh', '-c', 'sleep 60 & echo $! > "$1"; wait', 'team', process.argv[2]!], {
  env: { PATH: process.env.PATH! },
  input: '',
  timeoutS: 60,
  signal: new AbortController().signal,
});
