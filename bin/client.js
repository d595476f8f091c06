/** `troupe/client`. In a checkout `dist` is built first. */
import { ensureBuilt } from './build.js';

await ensureBuilt();
export const { connect } = await import('../dist/api/client/client.js');
