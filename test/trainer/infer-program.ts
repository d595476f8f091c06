/** A sampling process of its own: its arguments are the socket and the directory of the model it begins with. */
import { startInfer } from '../../trainer/sample/infer.ts';
import { Policy } from '../../trainer/sample/policy.ts';

const [socket, dir] = process.argv.slice(2);
const server = await startInfer({ socket: socket!, threads: 1 }, Policy.load);
await server.load({ dir: dir!, name: 'main' });
process.stdout.write('ready\n');
