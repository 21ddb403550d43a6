// Carries out the calls of standard input, one JSON object in a line, with /clients/commons.mjs.

import { createInterface } from "node:readline";
import { Commons } from "./commons.mjs";

const tell = (answer) => console.log(JSON.stringify(answer));
const { urls, min_index: minIndex, ...options } = JSON.parse(process.argv[2]);

let commons;
for await (const line of createInterface({ input: process.stdin })) {
  const { method, args, fields, take } = JSON.parse(line);
  try {
    commons ??= new Commons(urls, { minIndex, ...options });
    const answer = commons[method.replace(/_(.)/g, (_, letter) => letter.toUpperCase())](...(args ?? []), fields ?? {});
    if (take) {
      let left = take;
      for await (const item of answer) {
        tell({ item });
        if (--left === 0) break;
      }
    } else {
      tell({ item: await answer });
    }
    tell({ min_index: commons.minIndex });
  } catch (error) {
    tell({ failure: { kind: error.constructor.name, text: error.message, ...error, request_id: error.requestId } });
  }
}
