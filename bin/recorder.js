/** `troupe/recorder`. In a checkout `dist` is built first. */
import { ensureBuilt } from './build.js';

await ensureBuilt();
export const { createRecorder, RecorderError } = await import('../dist/ingest/recorder.js');
