/** The program as it is shipped, JavaScript. Started from source every `troupe` of the tests would take two seconds more of processor time. */
import { ensureBuilt } from '../../../bin/build.js';

/** The path of cli.js. */
export const builtProgram: string = await ensureBuilt();
